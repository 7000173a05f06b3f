/* vector_list.h: the programs with published vectors, and how many vectors
 * each has; the programs whose own tests run, and how many tests. */
#ifndef TDSL_TESTS_UNIT_VECTOR_LIST_H
#define TDSL_TESTS_UNIT_VECTOR_LIST_H

#define VECTOR_FILES(ROW)                                                     \
  ROW(softmax, 9)                                                             \
  ROW(nn, 34)                                                                 \
  ROW(attention, 8)                                                           \
  ROW(variants, 8)                                                            \
  ROW(llama, 2)                                                               \
  ROW(bert, 1)                                                                \
  ROW(moe, 2)                                                                 \
  ROW(conv, 5)                                                                \
  ROW(tp_mlp, 5)                                                              \
  ROW(ring_attention, 3)                                                      \
  ROW(pipeline, 1)                                                            \
  ROW(quant, 6)                                                               \
  ROW(losses, 4)

#define TEST_FILES(ROW)                                                       \
  ROW(semantics, 8)                                                           \
  ROW(lowering, 16)                                                           \
  ROW(softmax, 1)                                                             \
  ROW(nn, 1)                                                                  \
  ROW(losses, 1)

#endif
