// The suite's kernels, in the form that the driver compiles for the GPU at hand. ptx_test.py gives them to
// ptxas.
#pragma once

namespace railyard::gpu {

/// railyard_spin(nanoseconds): holds the stream for so long, one thread. railyard_copy(to, from, bytes): any
/// grid.
inline constexpr char kernels_ptx[] = R"ptx(
.version 6.0
.target sm_70
.address_size 64

.visible .entry railyard_spin(.param .u64 nanoseconds)
{
    .reg .pred %late;
    .reg .b64 %limit, %begin, %now, %spent;
    ld.param.u64 %limit, [nanoseconds];
    mov.u64 %begin, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %spent, %now, %begin;
    setp.lt.u64 %late, %spent, %limit;
    @%late bra again;
    ret;
}

.visible .entry railyard_copy(.param .u64 to, .param .u64 from, .param .u64 bytes)
{
    .reg .pred %done;
    .reg .b16 %byte;
    .reg .b32 %block, %threads, %thread, %blocks, %first, %all;
    .reg .b64 %to, %from, %bytes, %at, %step, %source, %place;
    ld.param.u64 %to, [to];
    ld.param.u64 %from, [from];
    ld.param.u64 %bytes, [bytes];
    cvta.to.global.u64 %to, %to;
    cvta.to.global.u64 %from, %from;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    mad.lo.u32 %first, %block, %threads, %thread;
    mul.lo.u32 %all, %blocks, %threads;
    cvt.u64.u32 %at, %first;
    cvt.u64.u32 %step, %all;
next:
    setp.ge.u64 %done, %at, %bytes;
    @%done bra end;
    add.u64 %source, %from, %at;
    add.u64 %place, %to, %at;
    ld.global.u8 %byte, [%source];
    st.global.u8 [%place], %byte;
    add.u64 %at, %at, %step;
    bra next;
end:
    ret;
}
)ptx";

}  // namespace railyard::gpu
