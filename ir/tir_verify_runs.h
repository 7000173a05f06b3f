/* tir_verify_runs.h: a part of tir_verify, for ir/tir_verify.c alone. */
#ifndef TDSL_IR_TIR_VERIFY_RUNS_H
#define TDSL_IR_TIR_VERIFY_RUNS_H

#include "ir/tir.h"
#include "runtime/base/map.h"

/* What is wrong with the cascades of a block whose nodes verify one by one,
 * and the node that shows it; NULL: nothing. `seen` has the numbers of the
 * cascades of the function so far and takes this block's. */
const char *tir_verify_runs(td_map_t *seen, const tir_block_t *block,
                            const tir_node_t **at);

#endif
