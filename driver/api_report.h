/* api_report.h: the page of a trace folder. */
#ifndef DRIVER_API_REPORT_H
#define DRIVER_API_REPORT_H

#include "driver/api_backend.h"
#include "runtime/plan/plan_text.h"

/* One HTML file as text, made after the plan, with remarks recorded; the
 * caller frees it. */
void drv_report_html(drv_backend_t *b, td_buf_t *out);

#endif
