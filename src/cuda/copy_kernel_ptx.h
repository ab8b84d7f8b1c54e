// The copying kernel, in the form that the driver compiles for the GPU at hand. test/gpu/ptx_test.py gives it
// to ptxas.
#pragma once

namespace railyard::cuda {

/// railyard_copy_pieces(CopyBatch): any grid as wide as one likes and as high as there are pieces. 16 bytes a
/// thread and step where a piece's places and length are multiples of that, four steps at a time; else 4, or
/// 1.
inline constexpr char copy_kernel_ptx[] = R"ptx(
.version 6.0
.target sm_70
.address_size 64

.visible .entry railyard_copy_pieces(.param .align 8 .b8 batch[3200])
{
    .reg .pred %odd, %over;
    .reg .b16 %byte;
    .reg .b32 %piece, %block, %blocks, %thread, %threads, %index, %all, %bytes;
    .reg .b32 %a<4>, %b<4>, %c<4>, %d<4>;
    .reg .b64 %entry, %to, %from, %length, %mix, %at, %step, %two, %three, %four, %end;
    .reg .b64 %read<4>, %write<4>;

    mov.u32 %piece, %ctaid.y;
    mov.b64 %entry, batch;
    mul.wide.u32 %at, %piece, 8;
    add.u64 %to, %entry, %at;
    ld.param.u64 %from, [%to+1280];
    ld.param.u64 %to, [%to];
    mul.wide.u32 %at, %piece, 4;
    add.u64 %at, %entry, %at;
    ld.param.u32 %bytes, [%at+2560];
    cvt.u64.u32 %length, %bytes;
    cvta.to.global.u64 %to, %to;
    cvta.to.global.u64 %from, %from;

    mov.u32 %block, %ctaid.x;
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %threads, %ntid.x;
    mad.lo.u32 %index, %block, %threads, %thread;
    mul.lo.u32 %all, %blocks, %threads;

    or.b64 %mix, %to, %from;
    or.b64 %mix, %mix, %length;
    and.b64 %end, %mix, 15;
    setp.ne.u64 %odd, %end, 0;
    @%odd bra words;

    mul.wide.u32 %at, %index, 16;
    mul.wide.u32 %step, %all, 16;
    shl.b64 %two, %step, 1;
    add.u64 %three, %two, %step;
    shl.b64 %four, %step, 2;
four_steps:
    add.u64 %end, %at, %three;
    setp.ge.u64 %over, %end, %length;
    @%over bra one_step;
    add.u64 %read0, %from, %at;
    add.u64 %read1, %read0, %step;
    add.u64 %read2, %read0, %two;
    add.u64 %read3, %read0, %three;
    ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%read0];
    ld.global.v4.u32 {%b0, %b1, %b2, %b3}, [%read1];
    ld.global.v4.u32 {%c0, %c1, %c2, %c3}, [%read2];
    ld.global.v4.u32 {%d0, %d1, %d2, %d3}, [%read3];
    add.u64 %write0, %to, %at;
    add.u64 %write1, %write0, %step;
    add.u64 %write2, %write0, %two;
    add.u64 %write3, %write0, %three;
    st.global.v4.u32 [%write0], {%a0, %a1, %a2, %a3};
    st.global.v4.u32 [%write1], {%b0, %b1, %b2, %b3};
    st.global.v4.u32 [%write2], {%c0, %c1, %c2, %c3};
    st.global.v4.u32 [%write3], {%d0, %d1, %d2, %d3};
    add.u64 %at, %at, %four;
    bra four_steps;
one_step:
    setp.ge.u64 %over, %at, %length;
    @%over bra done;
    add.u64 %read0, %from, %at;
    add.u64 %write0, %to, %at;
    ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%read0];
    st.global.v4.u32 [%write0], {%a0, %a1, %a2, %a3};
    add.u64 %at, %at, %step;
    bra one_step;

words:
    and.b64 %end, %mix, 3;
    setp.ne.u64 %odd, %end, 0;
    @%odd bra single;
    mul.wide.u32 %at, %index, 4;
    mul.wide.u32 %step, %all, 4;
next_word:
    setp.ge.u64 %over, %at, %length;
    @%over bra done;
    add.u64 %read0, %from, %at;
    add.u64 %write0, %to, %at;
    ld.global.u32 %a0, [%read0];
    st.global.u32 [%write0], %a0;
    add.u64 %at, %at, %step;
    bra next_word;

single:
    cvt.u64.u32 %at, %index;
    cvt.u64.u32 %step, %all;
next_byte:
    setp.ge.u64 %over, %at, %length;
    @%over bra done;
    add.u64 %read0, %from, %at;
    add.u64 %write0, %to, %at;
    ld.global.u8 %byte, [%read0];
    st.global.u8 [%write0], %byte;
    add.u64 %at, %at, %step;
    bra next_byte;
done:
    ret;
}
)ptx";

}  // namespace railyard::cuda
