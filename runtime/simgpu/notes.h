#ifndef SIM_NOTES_H
#define SIM_NOTES_H

#include "runtime/simgpu/warp.h"

/* Before the instruction: shifts and conversions. */
void sim_note_before(sim_warp_t *w, const sim_ins_t *ins, uint32_t mask);
/* Lanes whose float operands are finite; 0 if the instruction makes none. */
uint32_t sim_note_finite(sim_warp_t *w, const sim_ins_t *ins);
/* After it: what it made of the lanes whose operands were finite. */
void sim_note_after(sim_warp_t *w, const sim_ins_t *ins, uint32_t mask,
                    uint32_t finite);

#endif
