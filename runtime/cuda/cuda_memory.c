/* cuda_memory.c: memory of the device, and copies to it and from it.
 *
 * 1. Asking the driver for memory stops the device, so freed blocks are kept
 *    and handed out again.  All work is in one order, so a block may be used
 *    again at once: what used it before is queued before.  When the driver
 *    has no more, what is kept goes back and it is asked once more.  On the
 *    simulated GPU blocks are not kept: its checks tell fresh memory from
 *    memory that was freed.
 * 2. A copy of ordinary memory makes the driver wait, or copy it twice.
 *    Here it goes through two halves of memory that the device can reach: one
 *    is filled while the other is on its way. */
#include "runtime/cuda/cuda_impl.h"

enum {
  GRAIN = 256,
  HALF_BYTES = 1 << 20,
  DIRECT_BYTES = 256, /* less goes by the driver's own way */
};

/* ---- blocks -------------------------------------------------------------- */

static bool grow_table(rcuda_gpu_t *d) {
  rcuda_heap_t *h = &d->heap;
  if (h->count < h->capacity) return true;
  size_t capacity = h->capacity == 0 ? 64 : h->capacity * 2;
  rcuda_block_t *blocks = d->allocator.function(
      h->blocks, h->capacity * sizeof *blocks, capacity * sizeof *blocks,
      d->allocator.user);
  if (blocks == NULL) return false;
  h->blocks = blocks;
  h->capacity = capacity;
  return true;
}

/* After a run that failed, work may still be under way; freeing waits for it
 * on a card, and the simulated one wants the host to have waited. */
static void drop_block(rcuda_gpu_t *d, size_t i) {
  rcuda_heap_t *h = &d->heap;
  (void)d->driver.stream_wait(d->stream);
  (void)d->driver.memory_free(h->blocks[i].at);
  h->held_bytes -= h->blocks[i].bytes;
  h->blocks[i] = h->blocks[--h->count];
}

/* True if something went back. */
static bool drop_free(rcuda_gpu_t *d) {
  size_t before = d->heap.count;
  for (size_t i = d->heap.count; i > 0; i--) {
    if (!d->heap.blocks[i - 1].is_used) drop_block(d, i - 1);
  }
  return d->heap.count < before;
}

/* The smallest that fits and does not waste an eighth of itself. */
static rcuda_block_t *find_free(rcuda_heap_t *h, size_t bytes) {
  rcuda_block_t *best = NULL;
  for (size_t i = 0; i < h->count; i++) {
    rcuda_block_t *b = &h->blocks[i];
    if (b->is_used || b->bytes < bytes || b->bytes - bytes > b->bytes / 8) {
      continue;
    }
    if (best == NULL || b->bytes < best->bytes) best = b;
  }
  return best;
}

static void hand_out(rcuda_heap_t *h, rcuda_block_t *b) {
  b->is_used = true;
  h->used_bytes += b->bytes;
  if (h->used_bytes > h->most_used_bytes) h->most_used_bytes = h->used_bytes;
}

int rcuda_heap_alloc(rcuda_gpu_t *d, size_t bytes, rcuda_ptr_t *out) {
  rcuda_heap_t *h = &d->heap;
  size_t want;
  if (__builtin_add_overflow(bytes, (size_t)(GRAIN - 1), &want)) {
    return RCUDA_OUT_OF_MEMORY;
  }
  /* whole grains can be found again; checks want the size that was asked */
  want = h->keeps ? want / GRAIN * GRAIN : bytes;
  if (want == 0) want = GRAIN;
  rcuda_block_t *b = find_free(h, want);
  if (b == NULL) {
    rcuda_block_t made = {.bytes = want};
    if (!grow_table(d)) return RCUDA_OUT_OF_MEMORY;
    int code = d->driver.memory_alloc(&made.at, want);
    if (code == RCUDA_OUT_OF_MEMORY && drop_free(d)) {
      code = d->driver.memory_alloc(&made.at, want);
    }
    if (code != RCUDA_SUCCESS) return code;
    b = &h->blocks[h->count++];
    *b = made;
    h->held_bytes += want;
  }
  hand_out(h, b);
  *out = b->at;
  return RCUDA_SUCCESS;
}

void rcuda_heap_free(rcuda_gpu_t *d, rcuda_ptr_t at) {
  rcuda_heap_t *h = &d->heap;
  size_t i = 0;
  while (i < h->count && (h->blocks[i].at != at || !h->blocks[i].is_used)) {
    i++;
  }
  if (i == h->count) return;
  h->blocks[i].is_used = false;
  h->used_bytes -= h->blocks[i].bytes;
  if (!h->keeps) drop_block(d, i);
}

void *rcuda_alloc(hal_device_t *device, size_t bytes) {
  rcuda_gpu_t *d = rcuda_self(device);
  rcuda_ptr_t p = 0;
  rcuda_enter(d);
  int code = rcuda_heap_alloc(d, bytes, &p);
  rcuda_leave(d);
  return code == RCUDA_SUCCESS ? (void *)(uintptr_t)p : NULL;
}

void rcuda_free(hal_device_t *device, void *data) {
  rcuda_gpu_t *d = rcuda_self(device);
  if (data == NULL) return;
  rcuda_enter(d);
  rcuda_heap_free(d, rcuda_address(data));
  rcuda_leave(d);
}

static bool has_queued(const rcuda_gpu_t *d) {
  return d->driver.memory_alloc_queued != NULL &&
         d->driver.memory_free_queued != NULL;
}

/* In the order of the stream; counted, never kept: only tests ask. */
void *rcuda_alloc_queued(hal_device_t *device, size_t bytes) {
  rcuda_gpu_t *d = rcuda_self(device);
  rcuda_heap_t *h = &d->heap;
  rcuda_block_t made = {.bytes = bytes};
  if (!has_queued(d)) return rcuda_alloc(device, bytes);
  rcuda_enter(d);
  bool ok = grow_table(d) && d->driver.memory_alloc_queued(
                                 &made.at, bytes, d->stream) == 0;
  if (ok) {
    h->blocks[h->count] = made;
    h->held_bytes += bytes;
    hand_out(h, &h->blocks[h->count++]);
  }
  rcuda_leave(d);
  return ok ? (void *)(uintptr_t)made.at : NULL;
}

void rcuda_free_queued(hal_device_t *device, void *data) {
  rcuda_gpu_t *d = rcuda_self(device);
  rcuda_heap_t *h = &d->heap;
  rcuda_ptr_t at = rcuda_address(data);
  size_t i = 0;
  rcuda_enter(d);
  while (i < h->count && h->blocks[i].at != at) i++;
  if (i < h->count && has_queued(d)) {
    (void)d->driver.memory_free_queued(at, d->stream);
    h->used_bytes -= h->blocks[i].bytes;
    h->held_bytes -= h->blocks[i].bytes;
    h->blocks[i] = h->blocks[--h->count];
  } else {
    (void)d->driver.stream_wait(d->stream);
    rcuda_heap_free(d, at);
  }
  rcuda_leave(d);
}

/* ---- the stage ----------------------------------------------------------- */

static void close_stage(rcuda_gpu_t *d) {
  rcuda_stage_t *s = &d->stage;
  for (int i = 0; i < 2; i++) {
    if (s->done[i] != NULL) (void)d->driver.event_destroy(s->done[i]);
    if (s->half[i] != NULL) (void)d->driver.host_free(s->half[i]);
    s->done[i] = NULL;
    s->half[i] = NULL;
  }
}

/* False: there is none, which only makes copies slower. */
static bool open_stage(rcuda_gpu_t *d) {
  rcuda_stage_t *s = &d->stage;
  if (s->half[1] != NULL || s->has_failed) return !s->has_failed;
  for (int i = 0; i < 2 && !s->has_failed; i++) {
    void *half = NULL;
    s->has_failed =
        d->driver.event_create(&s->done[i], RCUDA_EVENT_DISABLE_TIMING) != 0;
    if (s->has_failed) break;
    s->has_failed = d->driver.host_alloc(&half, HALF_BYTES, 0) != 0;
    s->half[i] = half;
  }
  if (s->has_failed) close_stage(d);
  return !s->has_failed;
}

void rcuda_memory_close(rcuda_gpu_t *d) {
  close_stage(d);
  while (d->heap.count > 0) drop_block(d, d->heap.count - 1);
  (void)d->allocator.function(d->heap.blocks,
                              d->heap.capacity * sizeof *d->heap.blocks, 0,
                              d->allocator.user);
  memset(&d->heap, 0, sizeof d->heap);
}

/* Waits until the device is through with a half. */
static int settle(rcuda_gpu_t *d, int which) {
  rcuda_stage_t *s = &d->stage;
  if (!s->is_busy[which]) return RCUDA_SUCCESS;
  s->is_busy[which] = false;
  return d->driver.event_wait(s->done[which]);
}

static int mark_busy(rcuda_gpu_t *d, int which) {
  d->stage.is_busy[which] = true;
  return d->driver.event_record(d->stage.done[which], d->stream);
}

static size_t piece(size_t bytes, size_t done) {
  return bytes - done < HALF_BYTES ? bytes - done : HALF_BYTES;
}

/* Through by the time that it returns is only the host's side. */
static int stage_in(rcuda_gpu_t *d, rcuda_ptr_t to, const char *from,
                    size_t bytes) {
  int code = RCUDA_SUCCESS, which = 0;
  for (size_t done = 0; done < bytes && code == RCUDA_SUCCESS; which ^= 1) {
    size_t n = piece(bytes, done);
    code = settle(d, which);
    if (code != RCUDA_SUCCESS) break;
    memcpy(d->stage.half[which], from + done, n);
    code = d->driver.copy_to_device(to + done, d->stage.half[which], n,
                                    d->stream);
    if (code == RCUDA_SUCCESS) code = mark_busy(d, which);
    done += n;
  }
  return code;
}

/* One piece is under way while the one before is taken. */
static int stage_out(rcuda_gpu_t *d, char *to, rcuda_ptr_t from,
                     size_t bytes) {
  int code = settle(d, 0), which = 0;
  size_t asked = 0, taken = 0;
  if (code == RCUDA_SUCCESS) code = settle(d, 1);
  while (taken < bytes && code == RCUDA_SUCCESS) {
    while (asked < bytes && asked - taken < (size_t)2 * HALF_BYTES &&
           !d->stage.is_busy[(asked / HALF_BYTES) & 1] &&
           code == RCUDA_SUCCESS) {
      int half = (int)(asked / HALF_BYTES & 1);
      size_t n = piece(bytes, asked);
      code = d->driver.copy_to_host(d->stage.half[half], from + asked, n,
                                    d->stream);
      if (code == RCUDA_SUCCESS) code = mark_busy(d, half);
      asked += n;
    }
    if (code != RCUDA_SUCCESS) break;
    size_t n = piece(bytes, taken);
    code = settle(d, which);
    if (code == RCUDA_SUCCESS) memcpy(to + taken, d->stage.half[which], n);
    taken += n;
    which ^= 1;
  }
  return code;
}

/* ---- copies -------------------------------------------------------------- */

bool rcuda_copy(hal_device_t *device, td_task_t *task, void *to,
                const void *from, size_t bytes) {
  rcuda_gpu_t *d = rcuda_self(device);
  if (bytes == 0) return true;
  rcuda_enter(d);
  int code = d->driver.copy_inside(rcuda_address(to), rcuda_address(from),
                                   bytes, rcuda_stream(d));
  return rcuda_end_call(d, task, code, "copying");
}

/* The caller may reuse its memory at once. */
bool rcuda_upload(hal_device_t *device, td_task_t *task, void *to,
                  const void *from, size_t bytes) {
  rcuda_gpu_t *d = rcuda_self(device);
  int code;
  if (bytes == 0) return true;
  rcuda_enter(d);
  if (bytes >= DIRECT_BYTES && open_stage(d)) {
    code = stage_in(d, rcuda_address(to), from, bytes);
  } else {
    code = d->driver.copy_to_device(rcuda_address(to), from, bytes,
                                    d->stream);
    if (code == RCUDA_SUCCESS) code = d->driver.stream_wait(d->stream);
  }
  return rcuda_end_call(d, task, code, "copying to the device");
}

bool rcuda_download(hal_device_t *device, td_task_t *task, void *to,
                    const void *from, size_t bytes) {
  rcuda_gpu_t *d = rcuda_self(device);
  int code;
  if (bytes == 0) return true;
  rcuda_enter(d);
  if (bytes >= DIRECT_BYTES && open_stage(d)) {
    code = stage_out(d, to, rcuda_address(from), bytes);
  } else {
    code = d->driver.copy_to_host(to, rcuda_address(from), bytes, d->stream);
    if (code == RCUDA_SUCCESS) code = d->driver.stream_wait(d->stream);
  }
  return rcuda_end_call(d, task, code, "copying from the device");
}

bool rcuda_fill(hal_device_t *device, td_task_t *task, void *to, int byte,
                size_t bytes) {
  rcuda_gpu_t *d = rcuda_self(device);
  if (bytes == 0) return true;
  rcuda_enter(d);
  int code = d->driver.fill_bytes(rcuda_address(to), (unsigned char)byte,
                                  bytes, rcuda_stream(d));
  return rcuda_end_call(d, task, code, "filling");
}
