"""Operations of torch that have no kernel for half, and how many of their first arguments are matrices or signals.

[run] on torch 2.13: the CPU's kernels, and the dtype checks that CUDA shares, under CUDA's autocast policy.
"""

from __future__ import annotations

LINEAR_ALGEBRA = (
    dict.fromkeys(
        "inverse inv inv_ex det logdet slogdet svd svdvals qr cholesky cholesky_ex cholesky_inverse eig eigh eigvals "
        "eigvalsh matrix_exp matrix_rank cond lu lu_factor geqrf tensorinv".split(),
        1,
    )
    | dict.fromkeys("solve lstsq triangular_solve solve_triangular cholesky_solve tensorsolve".split(), 2)
    | dict.fromkeys("orgqr householder_product ormqr lu_solve".split(), 2)
)
# Composites whose own products autocast casts again.
CAST_AGAIN = dict.fromkeys("pinverse pinv matrix_power pca_lowrank svd_lowrank lobpcg".split(), 1)
OF_REAL_NUMBERS = dict.fromkeys("rfft rfft2 rfftn stft quantile nanquantile ctc_loss".split(), 1)
INTO_COMPLEX = {"view_as_complex": 1, "complex": 2, "polar": 2}
# Complex numbers are welcome, and `.float()` would drop their imaginary part.
TRANSFORMS = dict.fromkeys("fft fft2 fftn".split(), 1)

# A sum that autocast does not make float32 as it does `sum`: it overflows in half.
SUMS = {"trace": 1}

WITHOUT_HALF = SUMS | LINEAR_ALGEBRA | CAST_AGAIN | OF_REAL_NUMBERS | INTO_COMPLEX | TRANSFORMS
