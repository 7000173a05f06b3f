/* update.h: what planning must know of an element update. */
#ifndef TDSL_PASSES_TILE_UPDATE_H
#define TDSL_PASSES_TILE_UPDATE_H

#include "ir/tir.h"

/* True if the node reads elements of its target other than the one it
 * writes in the same tuple: then the kernel has the target as a parameter of
 * its own, and the output must be a different buffer (a copy). */
bool tile_update_reads_elsewhere(td_arena_t *scratch, tir_node_t *node);

#endif
