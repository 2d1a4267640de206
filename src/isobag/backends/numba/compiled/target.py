"""What Numba compiles for: the features of its target, which need not be the host's, and the intrinsics of its LLVM."""

import llvmlite.binding
from numba.core import codegen, config


def _features() -> frozenset[str]:
    """Features of the target: NUMBA_CPU_FEATURES if set, none for NUMBA_CPU_NAME=generic, else those of the host."""
    chosen = config.CPU_FEATURES  # type: ignore[attr-defined]  # set when Numba reads its environment
    text = codegen.get_host_cpu_features() if chosen is None else chosen
    return frozenset(feature[1:] for feature in text.split(",") if feature.startswith("+"))


def has_intrinsic(declaration: str) -> bool:
    """Whether LLVM has an intrinsic, by its declaration: it adds attributes to those it has.

    Compiling any other would end the process.
    """
    module = llvmlite.binding.parse_assembly(f"declare {declaration}")
    return any(attributes for function in module.functions for attributes in function.attributes)


FEATURES = _features()
HAS_AVX512 = "avx512f" in FEATURES
HAS_QUADS = {"avx512f", "avx512vnni"} <= FEATURES and has_intrinsic(
    "<16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32>, <16 x i32>, <16 x i32>)"
)
"""Whether four bytes are multiplied by four others and added to a sum in one instruction."""
