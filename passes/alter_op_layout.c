/* Brings convolutions into the order of axes in which they are computed fastest here: rows of a channel lie behind one another.
 *
 *     nn.conv2d(%x, %w, …, data_layout="NHWC", kernel_layout="HWIO")
 *  => %0 = layout_transform(%x, src_layout="NHWC", dst_layout="NCHW"); …; layout_transform(nn.conv2d(%0, %1, …), …) */
#include "passes/convert_layout.h"

#define TEXT(t) {.kind = ATTR_STRING, .s = {(t), sizeof(t) - 1}}

static Function *alter(PassRun *run, const Def *def)
{
    static const AttrValue conv1d[] = {TEXT("NCW"), TEXT("default")};
    static const AttrValue conv2d[] = {TEXT("NCHW"), TEXT("default")};
    static const AttrValue conv3d[] = {TEXT("NCDHW"), TEXT("default")};
    static const AttrValue desired[] = {TEXT("nn.conv1d"), ATTR_DEFAULT_LIST(conv1d),
                                        TEXT("nn.conv2d"), ATTR_DEFAULT_LIST(conv2d),
                                        TEXT("nn.conv3d"), ATTR_DEFAULT_LIST(conv3d)};
    static const AttrValue all = ATTR_DEFAULT_LIST(desired);
    return convert_layouts(run, def, &all, false);
}

const Pass pass_alter_op_layout = {
    .name = "AlterOpLayout",
    .doc = "Brings convolutions into the order of axes in which they are computed fastest.",
    .opt_level = 3,
    .reorders = true,
    .needs_types = true,
    .function = alter,
};
