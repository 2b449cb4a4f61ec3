/* Kernels in C, for what LLVM makes of them: compiled here they say what the text in kernels.ptx must compute. The text is made by
 *     clang-19 -x c -target nvptx64-nvidia-cuda -march=sm_90 -O2 -ffp-contract=off -nocudalib -ffreestanding -S tests/gpu/kernels.h -o tests/gpu/kernels.ptx
 * Each thread has elements of its own: `i` is its number, `n` the number of threads. */
#include <stdint.h>

#ifdef __NVPTX__
#define KERNEL __attribute__((nvptx_kernel)) void
#define GLOBAL __attribute__((address_space(1)))
#define EACH                                                                       \
    int i = (int)(__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + \
                  __nvvm_read_ptx_sreg_tid_x());
#else
#define KERNEL static void
#define GLOBAL
#define EACH for (int i = 0; i < n; i++)
#endif

KERNEL ints(GLOBAL int32_t *a, GLOBAL const int32_t *x, GLOBAL const int32_t *y, int n)
{
    EACH
    {
        int32_t p = x[i], q = y[i];
        uint32_t u = (uint32_t)p, v = (uint32_t)q;
        a[i] = (int32_t)(u + v);
        a[n + i] = (int32_t)(u * v - 7 * u);
        a[2 * n + i] = q == 0 || q == -1 ? 5 : p / q;
        a[3 * n + i] = q == 0 || q == -1 ? 5 : p % q;
        a[4 * n + i] = (int32_t)(u / (v | 1) ^ u % (v | 1));
        a[5 * n + i] = p >> (v & 31);
        a[6 * n + i] = (int32_t)(u >> (v & 31) | u << (-v & 31));
        a[7 * n + i] = __builtin_popcount(u) + 100 * __builtin_clz(u | 1) +
                       10000 * __builtin_ctz(v | 0x80000000);
        a[8 * n + i] = p < q ? p : q;
        a[9 * n + i] = (int32_t)(u < v ? v - u : u - v);
        a[10 * n + i] = p / 10 + (int32_t)(v / 7) + p % 1000;
        a[11 * n + i] = (int16_t)p * 3 + (int8_t)q + (uint8_t)(p >> 8);
        a[12 * n + i] = (int32_t)__builtin_bswap32(u);
        a[13 * n + i] = (int32_t)((u & v) | (~u & 0x1234)) ^ (p > 3 && q < 100);
    }
}

KERNEL longs(GLOBAL int64_t *a, GLOBAL const int64_t *x, GLOBAL const int64_t *y, int n)
{
    EACH
    {
        int64_t p = x[i], q = y[i];
        uint64_t u = (uint64_t)p, v = (uint64_t)q;
        a[i] = (int64_t)(u * v + u);
        a[n + i] = q == 0 || q == -1 ? 5 : p / q;
        a[2 * n + i] = (int64_t)(u % (v | 1));
        a[3 * n + i] = p >> (v & 63);
        a[4 * n + i] = (int64_t)(u << (v & 63) | u >> (-v & 63));
        a[5 * n + i] = __builtin_popcountll(u) + 100 * __builtin_clzll(u | 1);
        a[6 * n + i] = p > q ? p : q;
        a[7 * n + i] = (int64_t)((__extension__(__int128) p * q) >> 64);
        a[8 * n + i] = (int32_t)p * (int64_t)(int32_t)q;
        a[9 * n + i] = (int64_t)(uint32_t)u + (int16_t)q + p / 1000;
    }
}

KERNEL floats(GLOBAL float *a, GLOBAL const float *x, GLOBAL const float *y, int n)
{
    EACH
    {
        float p = x[i], q = y[i];
        a[i] = p + q;
        a[n + i] = p * q - 3;
        a[2 * n + i] = p / q;
        a[3 * n + i] = __builtin_sqrtf(__builtin_fabsf(p));
        a[4 * n + i] = __builtin_fmaf(p, q, p);
        a[5 * n + i] = __builtin_floorf(p) + 2 * __builtin_ceilf(q) + 3 * __builtin_truncf(p) +
                       5 * __builtin_rintf(q);
        a[6 * n + i] = p < q ? p : q;
        a[7 * n + i] = p >= q || p != p ? -p : 1;
        a[8 * n + i] = __builtin_copysignf(p, q);
        a[9 * n + i] = (float)(double)p + (float)((double)p * (double)q);
        a[10 * n + i] = (float)(p > -1e9f && p < 1e9f ? (int32_t)p : 7);
        a[11 * n + i] = (float)(p > 0 && p < 4e9f ? (uint32_t)p : 7u);
        a[12 * n + i] = (float)(p > -1e18f && p < 1e18f ? (int64_t)p : 7);
    }
}

KERNEL doubles(GLOBAL double *a, GLOBAL const double *x, GLOBAL const double *y, int n)
{
    EACH
    {
        double p = x[i], q = y[i];
        a[i] = p + q;
        a[n + i] = p * q - 3;
        a[2 * n + i] = p / q;
        a[3 * n + i] = __builtin_sqrt(__builtin_fabs(p));
        a[4 * n + i] = __builtin_fma(p, q, p);
        a[5 * n + i] = __builtin_floor(p) + 2 * __builtin_ceil(q) + 3 * __builtin_trunc(p);
        a[6 * n + i] = p > q ? p : q;
        a[7 * n + i] = (double)(p > -1e18 && p < 1e18 ? (int64_t)p : 7);
        a[8 * n + i] = (double)(p > 0 && p < 1e19 ? (uint64_t)p : 7u);
        a[9 * n + i] = (double)(int8_t)(p > -100 && p < 100 ? p : 3);
    }
}

/* Ways that part and meet again, loops of different lengths, memory of a thread's own. */
KERNEL ways(GLOBAL int32_t *a, GLOBAL const int32_t *x, GLOBAL const int32_t *y, int n)
{
    EACH
    {
        int32_t t[16], sum = 0;
        uint32_t u = (uint32_t)x[i];
        for (int k = 0; k < 16; k++)
            t[k] = (int32_t)(u * (uint32_t)k) ^ k;
        for (uint32_t k = 0; k < (u & 63); k++) {
            if ((k ^ u) & 4)
                continue;
            sum += t[k & 15];
            if (sum > 100000)
                break;
        }
        switch (y[i] & 7) {
        case 0: sum += 5; break;
        case 1: sum ^= 77; break;
        case 2: sum -= t[u & 15]; break;
        case 3: sum *= 3;
        /* fall through */
        case 4: sum += 9; break;
        case 5: sum = y[i] / (sum | 1); break;
        default: sum = ~sum;
        }
        a[i] = sum;
        uint32_t steps = 0;
        for (uint32_t c = (u & 1023) + 1; c != 1; c = c & 1 ? 3 * c + 1 : c / 2)
            steps++;
        a[n + i] = (int32_t)steps;
    }
}
