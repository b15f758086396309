"""Sixteen float32 lanes as one value inside numba functions.

Loops over pixels vectorise or not as LLVM pleases, half as wide as this machine can, and reassociation flags that
would help break the arithmetic. Here a kernel says what it means: ``f32x16`` is an LLVM vector, ``mask16`` its truth
values, every operation is one LLVM instruction. LLVM maps them to AVX-512, splits them for AVX2 or NEON, and keeps
IEEE arithmetic everywhere.
"""
# mypy: disable-error-code="misc"

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model

LANES = 16
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_INTS = ir.VectorType(ir.IntType(32), LANES)
_TRUTHS = ir.VectorType(ir.IntType(1), LANES)


class Float32x16(types.Type):
    """Sixteen float32."""

    def __init__(self) -> None:
        super().__init__(name="f32x16")


class Mask16(types.Type):
    """Sixteen truth values."""

    def __init__(self) -> None:
        super().__init__(name="mask16")


f32x16 = Float32x16()
mask16 = Mask16()


@register_model(Float32x16)
class _FloatsModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _FLOATS)


@register_model(Mask16)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _TRUTHS)


def _floats(values: list[float] | float) -> ir.Constant:
    listed = values if isinstance(values, list) else [values] * LANES
    return ir.Constant(_FLOATS, [ir.Constant(ir.FloatType(), value) for value in listed])


def _ints(value: int) -> ir.Constant:
    return ir.Constant(_INTS, [ir.Constant(ir.IntType(32), value)] * LANES)


def _lower_operator(
    op: Callable[..., Any], result: types.Type, operand: types.Type, instruction: str, *how: str
) -> None:
    """Give ``op`` a meaning for two vectors: one instruction of the IR builder."""

    @infer_global(op)
    class _Typing(ConcreteTemplate):
        cases = [signature(result, operand, operand)]  # noqa: RUF012

    @lower_builtin(op, operand, operand)
    def _lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*how, *args)


_lower_operator(operator.add, f32x16, f32x16, "fadd")
_lower_operator(operator.sub, f32x16, f32x16, "fsub")
_lower_operator(operator.mul, f32x16, f32x16, "fmul")
_lower_operator(operator.ge, mask16, f32x16, "fcmp_ordered", ">=")
_lower_operator(operator.gt, mask16, f32x16, "fcmp_ordered", ">")
_lower_operator(operator.lt, mask16, f32x16, "fcmp_ordered", "<")
_lower_operator(operator.and_, mask16, mask16, "and_")
_lower_operator(operator.or_, mask16, mask16, "or_")


@intrinsic
def splat(typingctx: Any, value: Any) -> Any:
    """The same number in every lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = context.cast(builder, args[0], sig.args[0], types.float32)
        one = builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(one, ir.Constant(_FLOATS, ir.Undefined), _ints(0))

    return f32x16(value), codegen


@intrinsic
def lanes_x(typingctx: Any) -> Any:
    """Column of each lane in a block of 8 columns and 2 rows: 0 1 .. 7 0 1 .. 7."""
    return f32x16(), lambda context, builder, sig, args: _floats([float(k % 8) for k in range(LANES)])


@intrinsic
def lanes_y(typingctx: Any) -> Any:
    """Row of each lane in a block of 8 columns and 2 rows: 0 .. 0 1 .. 1."""
    return f32x16(), lambda context, builder, sig, args: _floats([float(k // 8) for k in range(LANES)])


def _address(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Pointer to sixteen floats that begin at a flat index of a C-contiguous float32 array."""
    array = context.make_array(sig.args[0])(context, builder, args[0])
    index = context.cast(builder, args[1], sig.args[1], types.intp)
    return builder.bitcast(builder.gep(array.data, [index]), _FLOATS.as_pointer())


@intrinsic
def load(typingctx: Any, array: Any, index: Any) -> Any:
    """Sixteen floats of a flat float32 array, from an index on. Nothing checks the bounds."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, sig, args), align=4)

    return f32x16(array, index), codegen


@intrinsic
def store(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Write sixteen floats to a flat float32 array, from an index on. Nothing checks the bounds."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _address(context, builder, sig, args), align=4)
        return context.get_dummy_value()

    return types.void(array, index, value), codegen


@intrinsic
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Begin to fetch the cache line at a flat index of a float32 array; any index will do."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        address = builder.bitcast(_address(context, builder, sig, args), byte)
        builder.call(function, [address, ir.Constant(number, 0), ir.Constant(number, 3), ir.Constant(number, 1)])
        return context.get_dummy_value()

    return types.void(array, index), codegen


def _fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """IR of ``a * b + c``, rounded once."""
    kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32"), [a, b, c])


@intrinsic
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, rounded once."""
    return f32x16(a, b, c), lambda context, builder, sig, args: _fused(builder, *args)


@intrinsic
def fnma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """``c - a * b``, rounded once."""
    return f32x16(a, b, c), lambda context, builder, sig, args: _fused(builder, builder.fneg(args[0]), args[1], args[2])


@intrinsic
def select(typingctx: Any, mask: Any, yes: Any, no: Any) -> Any:
    """Lane by lane, ``yes`` where the mask holds, else ``no``."""
    return f32x16(mask, yes, no), lambda context, builder, sig, args: builder.select(*args)


@intrinsic
def minimum(typingctx: Any, a: Any, b: Any) -> Any:
    """The smaller of two; ``b`` where ``a`` is NaN."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return f32x16(a, b), codegen


@intrinsic
def negative_abs(typingctx: Any, a: Any) -> Any:
    """Minus the absolute value: the sign bit set."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = builder.or_(builder.bitcast(args[0], _INTS), _ints(0x80000000))
        return builder.bitcast(bits, _FLOATS)

    return f32x16(a), codegen


@intrinsic
def exp2(typingctx: Any, power: Any) -> Any:
    """2 to a power in [-120, 120], relative error below 3e-7; anything elsewhere.

    2^(n + f) with n the nearest integer: adding 1.5 * 2^23 leaves n in the low bits, from where it is added to the
    exponent of the polynomial. Coefficients: minimax for 2^f on [-1/2, 1/2] (computed for this file, see the tests).
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        magic = _floats(12582912.0)
        shifted = builder.fadd(args[0], magic)
        part = builder.fsub(args[0], builder.fsub(shifted, magic))
        result = _floats(EXP2_COEFFICIENTS[0])
        for coefficient in EXP2_COEFFICIENTS[1:]:
            result = _fused(builder, result, part, _floats(coefficient))
        exponent = builder.shl(builder.bitcast(shifted, _INTS), _ints(23))
        return builder.bitcast(builder.add(builder.bitcast(result, _INTS), exponent), _FLOATS)

    return f32x16(power), codegen


EXP2_COEFFICIENTS = (0.00132764596, 0.00967554096, 0.0555071346, 0.240221202, 0.693146944, 1.00000012)
"""Highest power first."""


@intrinsic
def reciprocal(typingctx: Any, a: Any) -> Any:
    """1 / a, to about 1e-7 where the processor has an estimate to start from."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.fdiv(_floats(1.0), args[0], flags=("arcp", "contract", "nnan", "ninf"))

    return f32x16(a), codegen


@intrinsic
def any_lane(typingctx: Any, mask: Any) -> Any:
    """Whether the mask holds in some lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(LANES), 0))

    return types.boolean(mask), codegen


@intrinsic
def sums_of_lanes(typingctx: Any, vectors: Any) -> Any:
    """For a tuple of up to sixteen vectors, the vector whose lane k is the sum of the lanes of vector k.

    A tree: each step puts the pairwise sums of two vectors side by side, always in the same order.
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        level = [builder.extract_value(args[0], k) for k in range(len(sig.args[0]))]
        even = ir.Constant(_INTS, [ir.Constant(ir.IntType(32), 2 * k) for k in range(LANES)])
        odd = ir.Constant(_INTS, [ir.Constant(ir.IntType(32), 2 * k + 1) for k in range(LANES)])
        for _ in range(4):
            if len(level) % 2:
                level.append(_floats(0.0))
            level = [
                builder.fadd(builder.shuffle_vector(a, b, even), builder.shuffle_vector(a, b, odd))
                for a, b in zip(level[::2], level[1::2], strict=True)
            ]
        return level[0]

    return f32x16(vectors), codegen
