"""The scan of everything that runs under autocast, part by part."""

from __future__ import annotations

from amp_migrate.facts import Facts
from amp_migrate.plan.model import Backward
from amp_migrate.plan.regions.bce import BceSite
from amp_migrate.plan.safety.areas import keep_areas
from amp_migrate.plan.safety.complex_weights import check_complex_weights
from amp_migrate.plan.safety.context import Context
from amp_migrate.plan.safety.coordinates import keep_coordinates
from amp_migrate.plan.safety.decompositions import BESIDE_DECOMPOSITIONS
from amp_migrate.plan.safety.dtype_checks import keep_what_is_checked
from amp_migrate.plan.safety.exact_products import EXACT
from amp_migrate.plan.safety.extensions import check_extensions
from amp_migrate.plan.safety.float32_only import keep_float32_inputs
from amp_migrate.plan.safety.foreign import check_foreign_code, run_in_float32
from amp_migrate.plan.safety.functions import guard_functions
from amp_migrate.plan.safety.half_losses import keep_losses
from amp_migrate.plan.safety.hooked import match_hooks
from amp_migrate.plan.safety.in_place import match_products_in_place
from amp_migrate.plan.safety.indexed import match_indexed_writes
from amp_migrate.plan.safety.inverses import WITH_INVERSES
from amp_migrate.plan.safety.isolated_products import (
    CAST_BY_HAND,
    DISTANCES,
    SQUARES,
    isolate_products,
    keep_squares_beside,
)
from amp_migrate.plan.safety.large_tensors import keep_moved_numbers
from amp_migrate.plan.safety.linear_algebra import keep_linear_algebra
from amp_migrate.plan.safety.masks import keep_masks
from amp_migrate.plan.safety.norm_weights import keep_norm_weights
from amp_migrate.plan.safety.nothing_in_half import note_what_stays_in_float32
from amp_migrate.plan.safety.positions import keep_positions
from amp_migrate.plan.safety.precision import Precisions
from amp_migrate.plan.safety.probabilities import keep_probabilities
from amp_migrate.plan.safety.products import keep_product
from amp_migrate.plan.safety.reach import Reach
from amp_migrate.plan.safety.recursions import keep_recursions
from amp_migrate.plan.safety.repairs import Safety
from amp_migrate.plan.safety.samples import draw_in_float32
from amp_migrate.plan.safety.sparse import isolate_sparse_products
from amp_migrate.plan.safety.type_tests import keep_the_way_of_the_gpu
from amp_migrate.plan.safety.vanishing import keep_epsilons
from amp_migrate.plan.safety.variances import keep_variances


def scan(facts: Facts, reach: Reach, bce: list[BceSite], backwards: list[Backward]) -> Safety:
    """What the code that `reach` has found to run under autocast needs to train in half as it did in float32.

    `bce` are the binary cross entropies of the same regions. Raises Refusal at a line that breaks and has no exact
    repair.
    """
    safety = Safety(unread=reach.unread)
    safety.floats += [node for site in bce for node in site.floats]
    safety.split += list(dict.fromkeys(call for site in bce for call in site.endings))
    context = Context(facts, reach, Precisions(facts, safety), safety)
    for product in (one for site in bce for one in site.products):
        keep_product(context, product)
    check_extensions(context)
    check_complex_weights(context)
    guard_functions(context)
    keep_moved_numbers(context)
    keep_masks(context)
    isolate_products(context, SQUARES)
    keep_squares_beside(context, isolate_products(context, DISTANCES))
    match_products_in_place(context)
    isolate_sparse_products(context)
    isolate_products(context, *EXACT)
    run_in_float32(context)
    isolate_products(context, WITH_INVERSES, BESIDE_DECOMPOSITIONS)
    keep_linear_algebra(context)
    draw_in_float32(context)
    keep_probabilities(context)
    keep_variances(context)
    keep_epsilons(context)
    keep_areas(context)
    keep_float32_inputs(context)
    keep_norm_weights(context)
    keep_what_is_checked(context)
    keep_the_way_of_the_gpu(context)
    keep_losses(context, backwards)
    keep_recursions(context)
    match_indexed_writes(context)
    match_hooks(context)
    keep_coordinates(context)
    keep_positions(context)
    check_foreign_code(context, reach.forwards)
    note_what_stays_in_float32(context)
    return safety


def match_mixed_types(facts: Facts, reach: Reach, safety: Safety) -> None:
    """What a model of half weights, and a loss of its outputs, need where autocast mixes half with float32.

    Under O2 everything in a model was half, and everything after it float32. That trained; but products and norms have
    results of different types now, and some operations raise for both at once.
    """
    context = Context(facts, reach, Precisions(facts, safety), safety)
    isolate_products(context, DISTANCES)
    match_products_in_place(context)
    isolate_products(context, CAST_BY_HAND)
    run_in_float32(context)
    keep_float32_inputs(context)
    match_indexed_writes(context)
