/* Convolutions and their weight gradients for XLA's foreign-function interface.
 *
 * LANES comes from the command line of the compiler.
 */
#include "convolution.h"

#include "xla/ffi/api/c_api.h"

/* Scratch memory of this thread, kept for its next call. */
static float *scratch(int64_t floats) {
    static __thread float *memory;
    static __thread int64_t size;
    if (floats > size) {
        free(memory);
        memory = aligned_alloc(64, whole_lines(floats) * sizeof(float));
        size = memory ? floats : 0;
    }
    return memory;
}

static int convolve(const int64_t *numbers, const float *x, const float *kernel, float *out) {
    const plan_t p = read_plan(numbers);
    const int64_t frame = frame_size(&p), packed = packed_size(&p), zeros = p.groups * p.outputs + 3 * LANES;
    const int64_t image = volume(p.in) * p.groups * p.channels, result = volume(p.out) * p.groups * p.outputs;
    float *memory = scratch(frame + packed + zeros), *weights = memory + frame, *nothing = weights + packed;
    if (!memory) return 0;
    memset(memory, 0, frame * sizeof(float));
    memset(nothing, 0, zeros * sizeof(float));
    pack(&p, kernel, 0, weights);
    for (int64_t n = 0; n < p.batch; n++) convolve_image(&p, x + n * image, weights, memory, nothing, 0, out + n * result);
    return 1;
}

static int weight_gradient(const int64_t *numbers, const float *x, const float *by, float *out) {
    const plan_t p = read_plan(numbers);
    const int64_t frame = frame_size(&p), sums = sums_size(&p), wide = wide_size(&p);
    const int64_t image = volume(p.in) * p.groups * p.channels, result = volume(p.out) * p.groups * p.outputs;
    float *memory = scratch(frame + sums + wide), *total = memory + frame;
    if (!memory) return 0;
    memset(memory, 0, (frame + sums + wide) * sizeof(float));
    memset(out, 0, p.taps * p.channels * p.groups * p.outputs * sizeof(float));
    for (int64_t n = 0; n < p.batch; n++) gather_image(&p, x + n * image, by + n * result, memory, total + sums, total);
    add_sums(&p, total, 1, out);
    return 1;
}

typedef int work_function(const int64_t *plan, const float *, const float *, float *);

static XLA_FFI_Error *call(XLA_FFI_CallFrame *frame, work_function *work) {
    XLA_FFI_Extension_Base *extension = frame->extension_start;
    if (extension && extension->type == XLA_FFI_Extension_Metadata) {
        XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)extension)->metadata;
        metadata->api_version = (XLA_FFI_Api_Version){XLA_FFI_Api_Version_STRUCT_SIZE, NULL, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
        return NULL;
    }
    const int64_t *plan = ((XLA_FFI_Array *)frame->attrs.attrs[0])->data;
    XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args, **out = (XLA_FFI_Buffer **)frame->rets.rets;
    if (work(plan, in[0]->data, in[1]->data, out[0]->data)) return NULL;
    XLA_FFI_Error_Create_Args error = {
        .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
        .message = "no memory for a convolution",
        .errc = XLA_FFI_Error_Code_RESOURCE_EXHAUSTED,
    };
    return frame->api->XLA_FFI_Error_Create(&error);
}

XLA_FFI_Error *convolution(XLA_FFI_CallFrame *frame) { return call(frame, convolve); }
XLA_FFI_Error *convolution_weight_gradient(XLA_FFI_CallFrame *frame) { return call(frame, weight_gradient); }
