"""Four bilinear colour pixels at a time as LLVM vectors: the numbers of ``remap_rules.blend``, in fewer instructions.

One unaligned load of 8 bytes holds two RGB neighbours, so a target pixel takes two loads; four pixels' loads are one
masked gather, which reads nothing for a pixel without a source. The bytes are spread to sixteen lanes (r, g, b and one
unused, four times); products of 8 by 14 bits are one instruction a vector on processors with a 16-bit multiply-add, and
narrower machines get the same code in parts.
"""
# mypy: disable-error-code="misc"

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from cuda_kernels.remap_rules import HALF, PRODUCT_HALF, PRODUCT_SHIFT, TO_WEIGHT, WEIGHT_BITS, WEIGHT_ONE

_BYTE, _INT, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_INT4, _WORD4 = ir.VectorType(_INT, 4), ir.VectorType(_WORD, 4)
_INT16 = ir.VectorType(_INT, 16)
_SHORT32 = ir.VectorType(ir.IntType(16), 32)
_PIXEL_OF_LANE = [lane // 4 for lane in range(16)]
_RGB_LANES = [lane for lane in range(16) if lane % 4 < 3]


def _all(number: int, lanes: int = 4) -> ir.Constant:
    return ir.Constant(ir.VectorType(_INT, lanes), [ir.Constant(_INT, number)] * lanes)


def _take(builder: Any, vector: Any, lanes: list[int]) -> Any:
    """A vector of some lanes of another."""
    chosen = ir.Constant(ir.VectorType(_INT, len(lanes)), [ir.Constant(_INT, lane) for lane in lanes])
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), chosen)


def _words(builder: Any, data: Any, starts: Any, where: Any) -> Any:
    """Eight bytes from each of four places, zero where there is nothing to read."""
    base = builder.insert_element(
        ir.Constant(_WORD4, ir.Undefined), builder.ptrtoint(data, _WORD), ir.Constant(_INT, 0)
    )
    places = builder.add(_take(builder, base, [0] * 4), builder.sext(starts, _WORD4))
    pointers = ir.VectorType(_WORD.as_pointer(), 4)
    kind = ir.FunctionType(_WORD4, [pointers, _INT, ir.VectorType(ir.IntType(1), 4), _WORD4])
    gather = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.gather.v4i64.v4p0")
    nothing = ir.Constant(_WORD4, [ir.Constant(_WORD, 0)] * 4)
    return builder.call(gather, [builder.inttoptr(places, pointers), ir.Constant(_INT, 1), where, nothing])


def _neighbours(builder: Any, words: Any) -> Any:
    """Bytes k and k + 3 of each word side by side, as 32 shorts: (left, right) of r, g, b and one unused."""
    taken = [8 * (lane // 8) + (lane // 2) % 4 + 3 * (lane % 2) for lane in range(32)]
    return builder.zext(_take(builder, builder.bitcast(words, ir.VectorType(_BYTE, 32)), taken), _SHORT32)


def _sum_of_pairs(builder: Any, numbers: Any, weights: Any) -> Any:
    """Sixteen sums of two products: one instruction (multiply-add of 16-bit pairs) where the processor has it."""
    sides = []
    for side in (0, 1):
        lanes = list(range(side, 32, 2))
        left, right = (builder.sext(_take(builder, vector, lanes), _INT16) for vector in (numbers, weights))
        sides.append(builder.mul(left, right))
    return builder.add(*sides)


def _weights(builder: Any, fractions: Any) -> list[Any]:
    """The four weights of ``remap_rules.blend``: (left, right) pairs of the upper and the lower row, for all lanes."""
    right, down = builder.and_(fractions, _all(0xFFFF)), builder.lshr(fractions, _all(16))
    product = builder.add(builder.mul(right, down), _all(PRODUCT_HALF))
    lower_right = builder.lshr(product, _all(PRODUCT_SHIFT))
    upper_right = builder.sub(builder.shl(right, _all(TO_WEIGHT)), lower_right)
    lower_left = builder.sub(builder.shl(down, _all(TO_WEIGHT)), lower_right)
    rest = builder.sub(builder.sub(_all(WEIGHT_ONE), upper_right), builder.add(lower_left, lower_right))
    rows = []
    for at_left, at_right in ((rest, upper_right), (lower_left, lower_right)):
        pair = builder.or_(at_left, builder.shl(at_right, _all(16)))
        rows.append(builder.bitcast(_take(builder, pair, _PIXEL_OF_LANE), _SHORT32))
    return rows


@intrinsic
def blend_four(
    typingctx: Any, source: Any, offsets: Any, fractions: Any, out: Any, first: Any, stride: Any, size: Any
) -> Any:
    """Write target pixels ``first`` to ``first + 3`` (12 bytes of ``out``). Nothing checks the bounds.

    ``source``: flat uint8 image of at least 8 bytes, ``size`` bytes in all, ``stride`` bytes a row. ``offsets`` and
    ``fractions``: those of a ``RemapTable``, flat. ``out``: flat uint8 target image.
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pixels, starts, shares, target = (
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(sig.args[:4], args[:4], strict=True)
        )
        index, row_bytes, last = (
            context.cast(builder, value, kind, types.int64) for kind, value in zip(sig.args[4:], args[4:], strict=True)
        )

        def everywhere(number: Any) -> Any:
            one = builder.insert_element(ir.Constant(_INT4, ir.Undefined), number, ir.Constant(_INT, 0))
            return _take(builder, one, [0] * 4)

        at = builder.load(builder.bitcast(builder.gep(starts, [index]), _INT4.as_pointer()), align=4)
        pairs = builder.gep(shares, [builder.shl(index, ir.Constant(_WORD, 1))])
        has_source = builder.icmp_signed(">=", at, _all(0))
        weights = _weights(builder, builder.load(builder.bitcast(pairs, _INT4.as_pointer()), align=2))

        top = builder.mul(at, _all(3))
        low = builder.add(top, everywhere(builder.trunc(row_bytes, _INT)))
        # Only six of the eight bytes are needed: at the image's end they are loaded from two bytes before.
        end = everywhere(builder.sub(builder.trunc(last, _INT), ir.Constant(_INT, 8)))
        low_start = builder.select(builder.icmp_signed("<", low, end), low, end)
        surplus = builder.zext(builder.shl(builder.sub(low, low_start), _all(3)), _WORD4)
        upper = _words(builder, pixels, top, has_source)
        lower = builder.lshr(_words(builder, pixels, low_start, has_source), surplus)

        total = _all(HALF, 16)
        for words, weight in zip((upper, lower), weights, strict=True):
            total = builder.add(total, _sum_of_pairs(builder, _neighbours(builder, words), weight))
        levels = builder.trunc(builder.lshr(total, _all(WEIGHT_BITS, 16)), ir.VectorType(_BYTE, 16))
        rgb = _take(builder, levels, _RGB_LANES)
        place = builder.gep(target, [builder.mul(index, ir.Constant(_WORD, 3))])
        builder.store(rgb, builder.bitcast(place, rgb.type.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(source, offsets, fractions, out, first, stride, size), codegen


@intrinsic
def prefetch(typingctx: Any, data: Any, place: Any) -> Any:
    """Ask for the cache line of byte ``place`` of a flat uint8 array, to be read soon. Any place is allowed."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        start = context.make_array(sig.args[0])(context, builder, args[0]).data
        pointer = builder.gep(start, [context.cast(builder, args[1], sig.args[1], types.int64)])
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _INT, _INT, _INT])
        request = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(request, [pointer, *(ir.Constant(_INT, flag) for flag in (0, 3, 1))])  # read, keep, data
        return context.get_dummy_value()

    return types.void(data, place), codegen
