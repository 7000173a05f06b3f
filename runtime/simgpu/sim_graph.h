/* Graphs: nodes in the order they were added, each with the nodes it comes
   after. Captures, explicit building and executable graphs share this. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "runtime/simgpu/sim_cuda.h"

#define SIM_MAX_DEPTH 16u /* of graphs inside graphs */

/* type: SIM_TYPE_GRAPH, or _EXEC of an executable one. NULL without memory. */
sim_graph_t *sim_graph_new(sim_type_t type, uint64_t ctx);
/* A node at the end; takes what op owns, also if it fails. */
sim_node_t *sim_graph_add(sim_graph_t *graph, const sim_op_run_t *op,
                          const sim_nodes_t *after, bool has_handle);
/* A graph of its own with the same nodes: 0, or why not. */
int sim_graph_copy(const sim_graph_t *from, sim_graph_t **out);
/* Nodes of the graph by their handles, each once; *out is to be freed even
   if it fails. */
int sim_graph_after(const sim_graph_t *graph, rcuda_node_t *const *list,
                    size_t count, sim_nodes_t *out);
/* As the interface has it. */
rcuda_edge_t sim_edge_of(uint8_t port);
/* True if the graph makes memory at the address and does not end it. */
bool sim_graph_frees(const sim_graph_t *graph, uint64_t address);
/* Enters with a graph that no capture holds. */
int sim_with_graph(const char *name, const void *handle, sim_graph_t **out);
/* A launch from a node's parameters. */
int sim_node_launch(const rcuda_kernel_node_t *params, sim_op_run_t *op);

#endif
