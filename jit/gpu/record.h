/* Runs of a plan as records of what a GPU is to do. */
#ifndef JIT_GPU_RECORD_H
#define JIT_GPU_RECORD_H

#include "jit/gpu/ptx.h"
#include "jit/plan_run.h"

/* The kernels of the step, whose program and known inputs stand in it; NULL after a diagnostic. */
const GpuCode *record_code(Ptx *ptx, const Step *s, const KernelOrigin *from);
/* The run, with so many bytes of memory for itself, behind those recorded before. */
const DeviceProgram *record_run(Ptx *ptx, const Plan *p, size_t bytes);
/* The text of all kernels; what each run launches stands in front of it, as comments. False after a diagnostic. */
bool record_text(Ptx *ptx, Buf *out);

#endif
