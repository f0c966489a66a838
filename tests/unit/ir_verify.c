/* Rules that text cannot break, because the parser would refuse it: a sound function is damaged in memory, and the verifier
 * must say so. What text can break is in tests/ir/verify-*.yt. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "ir/ir.h"

#define ALL_STAGES (YIR_S_NOBN | YIR_S_LAYOUT | YIR_S_KERNELS | YIR_S_PLACES)

static const char network[] = "in  %images : f32[1,4,8,8] nchw\n"
                              "in  %other : f32[3]\n"
                              "w   $w : f32[4,4,1,1] oihw\n"
                              "w   $b : f32[4]\n"
                              "arena bytes=4096\n"
                              "buf b0 arena bytes=1024 at=0 live=1..2\n"
                              "buf b1 arena bytes=2048 at=1024 live=2..6\n"
                              "buf b2 out cat bytes=2048\n"
                              "kernel k1 {\n"
                              "%1 = cast %images {layout=nhwc} : f32[1,4,8,8] nhwc -> b0\n"
                              "}\n"
                              "kernel k2 {\n"
                              "%2 = conv2d %1, $w, $b : f32[1,4,8,8] nhwc inline\n"
                              "%3 = leaky %2 {slope=0.1} : f32[1,4,8,8] nhwc -> b1 ld=8\n"
                              "}\n"
                              "kernel k3 {\n"
                              "%4 = relu %3 : f32[1,4,8,8] nhwc -> b1+16 ld=8\n"
                              "}\n"
                              "%5 = concat %3, %4 : f32[1,8,8,8] nhwc view -> b1\n"
                              "kernel k4 {\n"
                              "%6 = cast %5 {layout=nchw} : f32[1,8,8,8] nchw -> b2\n"
                              "}\n"
                              "out cat = %6\n";

static struct yir_arena *arena;
static struct yir_diags *diags;
static struct yir_func *f;

static void setup(void)
{
    arena = yir_arena_new(NULL, NULL);
    diags = yir_diags_new(arena, NULL, NULL);
    f = yir_parse(arena, yir_types_new(arena), diags, "v.yir", network, strlen(network));
    cr_assert_not_null(f);
    cr_assert_eq(yir_verify(f, ALL_STAGES), 0);
    cr_assert_eq(yir_diag_errors(diags), 0);
}

static void teardown(void)
{
    yir_arena_free(arena);
}

TestSuite(ir_verify, .init = setup, .fini = teardown);

static void must_say(unsigned stages, const char *part)
{
    cr_assert_eq(yir_verify(f, stages), -1, "not found: %s", part);
    const struct yir_diag *d = yir_diag_at(diags, 0);
    cr_assert_eq(d->id, E_IR_VERIFY);
    cr_assert(strstr(d->text, part), "'%s' is not in: %s", part, d->text);
}

Test(ir_verify, code_out_of_range)
{
    f->op[2].code = YIR_NCODE;
    must_say(0, "%2: code");
}

Test(ir_verify, code_nop)
{
    f->op[2].code = YIR_NOP;
    must_say(0, "%2: code 0");
}

Test(ir_verify, place_of_origin_out_of_range)
{
    f->op[3].loc = f->nloc;
    must_say(0, "%3: code");
}

Test(ir_verify, too_few_operands)
{
    f->op[2].nsrc = 1;
    must_say(0, "%2: conv2d has 1 operands");
}

Test(ir_verify, operands_outside_the_pool)
{
    f->op[6].src = f->nref;
    must_say(0, "%6: cast has 1 operands");
}

Test(ir_verify, attributes_outside_the_pool)
{
    f->op[6].attr = f->nword - 1;
    must_say(0, "%6: its attributes lie outside");
}

Test(ir_verify, operand_after_its_reader)
{
    f->ref[f->op[3].src] = yir_mkref(YIR_VAL, 3);
    must_say(0, "%3: operand 0");
}

Test(ir_verify, operand_zero)
{
    f->ref[f->op[3].src] = yir_mkref(YIR_VAL, 0);
    must_say(0, "%3: operand 0");
}

Test(ir_verify, operand_nil)
{
    f->ref[f->op[3].src] = YIR_NONE;
    must_say(0, "%3: operand 0");
}

Test(ir_verify, operand_no_such_weight)
{
    f->ref[f->op[2].src + 1] = yir_mkref(YIR_WGT, 2);
    must_say(0, "%2: operand 1");
}

Test(ir_verify, operand_no_such_input)
{
    f->ref[f->op[1].src] = yir_mkref(YIR_INP, 2);
    must_say(0, "%1: operand 0");
}

Test(ir_verify, operand_of_unknown_kind)
{
    f->ref[f->op[1].src] = (yir_ref){7u << 29};
    must_say(0, "%1: operand 0");
}

Test(ir_verify, attribute_not_a_number)
{
    float nan = NAN;
    memcpy(&f->word[f->op[3].attr], &nan, sizeof nan);
    must_say(0, "%3: the attribute slope");
}

Test(ir_verify, wrong_type)
{
    f->op[3].type = f->input[1].type;
    must_say(0, "%3: its type is not f32[1,4,8,8] nhwc");
}

Test(ir_verify, type_that_does_not_exist)
{
    f->op[3].type = (yir_type){123456};
    must_say(0, "%3: its type is not");
}

Test(ir_verify, operands_that_do_not_fit)
{
    f->ref[f->op[2].src + 1] = yir_mkref(YIR_WGT, 1);
    must_say(0, "%2: the operands of conv2d do not fit");
}

Test(ir_verify, stored_view)
{
    f->op[5].flags |= YIR_F_STORED;
    must_say(0, "%5: flags 3");
}

Test(ir_verify, unknown_flag)
{
    f->op[5].flags |= 16;
    must_say(0, "%5: flags 18");
}

Test(ir_verify, kernel_out_of_range)
{
    f->op[6].kernel = 5;
    must_say(0, "%6: flags 1 and kernel 5");
}

Test(ir_verify, view_in_a_kernel)
{
    f->op[5].kernel = 4;
    must_say(0, "%5: a view, but in kernel k4");
}

Test(ir_verify, stored_in_no_kernel)
{
    f->op[4].kernel = 0;
    must_say(0, "%4: stored, but in no kernel");
}

Test(ir_verify, weight_name_with_a_blank)
{
    f->weight[0].name = "a b";
    must_say(0, "weight 'a b': the name");
}

Test(ir_verify, empty_output_name)
{
    f->output[0].name = "";
    must_say(0, "output '': the name");
}

Test(ir_verify, input_named_by_a_number)
{
    f->input[1].name = "12";
    must_say(0, "input '12': the name");
}

Test(ir_verify, inputs_of_one_name)
{
    f->input[1].name = "images";
    must_say(0, "input 'images' stands twice");
}

Test(ir_verify, weights_of_one_name)
{
    f->weight[1].name = "w";
    must_say(0, "weight 'w' stands twice");
}

Test(ir_verify, outputs_of_one_name)
{
    yir_add_output(f, "cat", yir_mkref(YIR_VAL, 6), false);
    must_say(0, "output 'cat' stands twice");
}

Test(ir_verify, output_of_nothing)
{
    f->output[0].ref = yir_mkref(YIR_VAL, 7);
    must_say(0, "output cat is nothing");
}

Test(ir_verify, places_without_buffers)
{
    f->nbuf = 0;
    must_say(0, "places without buffers");
}

Test(ir_verify, buffers_without_places)
{
    f->place = NULL;
    must_say(0, "places without buffers");
}

Test(ir_verify, buffer_of_no_output)
{
    f->buf[2].io = 1;
    must_say(0, "b2 is of no input or output");
}

Test(ir_verify, buffer_of_unknown_kind)
{
    f->buf[2].kind = (enum yir_bufkind)3;
    must_say(0, "b2 is of no input or output");
}

Test(ir_verify, place_in_no_buffer)
{
    f->place[3].buf = 4;
    must_say(0, "%3: its buffer does not exist");
}

Test(ir_verify, kernels_out_of_order)
{
    f->op[4].kernel = 4;
    f->op[6].kernel = 3;
    must_say(YIR_S_KERNELS, "%4: kernel k4 stands after k2");
}

Test(ir_verify, kernel_in_two_pieces)
{
    f->op[6].kernel = 2;
    f->nkernel = 3;
    must_say(YIR_S_KERNELS, "%6: kernel k2 stands after k3");
}

Test(ir_verify, negative_stride)
{
    f->place[3].stride[2] = -64;
    must_say(ALL_STAGES, "%3: reaches out of its buffer");
}

Test(ir_verify, stride_that_overflows)
{
    f->place[3].stride[2] = INT64_MAX;
    must_say(ALL_STAGES, "%3: reaches out of its buffer");
}

Test(ir_verify, offset_that_overflows)
{
    f->place[3].offset = UINT64_MAX - 15;
    must_say(ALL_STAGES, "%3: reaches out of its buffer");
}

Test(ir_verify, buffer_end_that_overflows)
{
    f->buf[1].offset = UINT64_MAX - 63;
    must_say(ALL_STAGES, "b1 does not lie in the arena");
}

Test(ir_verify, inline_value_with_a_place)
{
    f->place[2] = f->place[3];
    must_say(ALL_STAGES, "%2: inline, but has a place");
}

/* The reader of b0 ends with its kernel, whose last op is 3: b1, written there, may not share its bytes although op 2 is
 * the last that reads b0. */
Test(ir_verify, a_kernel_runs_as_one)
{
    f->buf[0].offset = 1024;
    f->buf[1].first = 3;
    must_say(ALL_STAGES, "b0 and b1 overlap");
}

Test(ir_verify, stages_are_asked_for_one_by_one)
{
    f->buf[1].offset = 0;
    cr_assert_eq(yir_verify(f, YIR_S_LAYOUT | YIR_S_KERNELS), 0);
    must_say(YIR_S_PLACES, "overlap");
}
