// Copies from global to shared memory that the thread does not wait for.
// Where nothing is there zeros come, and nothing is read.

//: td_async_4
__device__ __forceinline__ void td_async_4(void *to, const void *from,
                                           bool is_there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
                  "r"(is_there ? 4 : 0) : "memory");
}

//: td_async_8
__device__ __forceinline__ void td_async_8(void *to, const void *from,
                                           bool is_there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
                  "r"(is_there ? 8 : 0) : "memory");
}

//: td_async_16
__device__ __forceinline__ void td_async_16(void *to, const void *from,
                                            bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
                  "r"(is_there ? 16 : 0) : "memory");
}
