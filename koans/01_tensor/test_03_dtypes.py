"""Dtypes: what two kinds of number become together."""

import re

import pytest
import torch

from sensei import __


def test_plain_numbers_beside_tensors():
    """Multiply tensors by plain Python numbers. Write the dtypes of the three products, in
    order."""
    halves = torch.ones(2, dtype=torch.float16)
    bytes_ = torch.ones(2, dtype=torch.int8)
    products = [halves * 2.5, bytes_ * 2, bytes_ * 2.5]
    assert [p.dtype for p in products] == __


def test_a_tensor_without_dimensions():
    """The same 0.5, once without dimensions and once with one. Write the dtypes of the three
    products, in order."""
    weights = torch.ones(3, dtype=torch.float32)
    counts = torch.ones(3, dtype=torch.int64)
    scale = torch.tensor(0.5, dtype=torch.float64)
    products = [weights * scale, weights * scale.reshape(1), counts * scale]
    assert [p.dtype for p in products] == __


def test_two_small_floats_with_a_larger_sum():
    """Make two floating point tensors, `a` and `b`. Each may spend only two bytes on an
    element, yet each element of their sum must take four."""
    # your turn:
    __
    # end
    assert torch.is_tensor(a) and torch.is_tensor(b)
    assert [t.is_floating_point() for t in (a, b)] == [True, True]
    assert [t.element_size() for t in (a, b, a + b)] == [2, 2, 4]


def test_whole_numbers_divided():
    """Divide a positive and a negative number by two. Write the quotients, then the
    remainders, as lists."""
    x = torch.tensor([7, -7])
    assert (x // 2).tolist() == __
    assert (x % 2).tolist() == __


def test_who_follows_the_default_dtype():
    """For a moment the default dtype is float64. Write the dtypes of the four tensors made
    meanwhile, in order."""
    whole, small = torch.tensor([4, 2]), torch.ones(2, dtype=torch.float16)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        made = [torch.tensor([4, 2]), torch.tensor([2j]), whole / whole, small * 0.5]
    finally:
        torch.set_default_dtype(before)
    assert [t.dtype for t in made] == __


def test_a_brighter_picture():
    """Each pixel should become brighter by 100, and no brighter than 255. The bright ones turn
    dark instead. Repair the marked line; the picture stays uint8."""

    def brighten(image):
        # your turn:
        return (image + 100).clamp(max=255)
        # end

    dark = torch.tensor([0, 100, 155], dtype=torch.uint8)
    light = torch.tensor([156, 200, 255], dtype=torch.uint8)
    assert brighten(dark).tolist() == [100, 200, 255]
    assert brighten(light).tolist() == [255, 255, 255]
    dtypes = [brighten(image).dtype for image in (dark, light)]
    assert dtypes == [torch.uint8, torch.uint8]


def test_halve_the_counts_in_place():
    """`counts * 0.5` works. In place it does not.

    The message names the product's dtype, then that of the place it should go to, by old
    names: Int and Long for 32 and 64 bits; Half, Float and Double for 16, 32 and 64. Which two?
    """
    counts = torch.tensor([2, 4])
    with pytest.raises(Exception) as caught:
        counts *= 0.5
    assert re.findall(r"type (\w+)", str(caught.value)) == __


def test_moves_that_are_refused():
    """An in-place operation must bring its result back to the dtype of its tensor. Not every
    such move is allowed; torch.can_cast tells. Write the names of the refused ones, in order."""
    moves = {
        "double to half": (torch.float64, torch.float16),
        "long to byte": (torch.int64, torch.uint8),
        "float to long": (torch.float32, torch.int64),
        "complex to float": (torch.complex64, torch.float32),
        "bool to long": (torch.bool, torch.int64),
        "long to bool": (torch.int64, torch.bool),
    }
    refused = [name for name, move in moves.items() if not torch.can_cast(*move)]
    assert refused == __


def test_turn_a_mask_over():
    """`padding` marks the places to leave out. We want the others, and get words twice.
    Repair the marked line."""

    def real_words(words):
        padding = words == 0
        # your turn:
        keep = 1 - padding.int()
        # end
        return words[keep]

    assert real_words(torch.tensor([8, 5, 0])).tolist() == [8, 5]
    assert real_words(torch.tensor([6, 0, 0, 0])).tolist() == [6]


def test_the_light_of_two_pictures():
    """Lay two byte pictures over each other: add them, pixel by pixel. Then write the mean of
    the sums that are not hidden. `hidden` marks pixels with True and False, or with 1 and 0."""

    def light(first, second, hidden):
        # your turn:
        __
        # end

    first = torch.tensor([200, 100, 50], dtype=torch.uint8)
    second = torch.tensor([100, 100, 250], dtype=torch.uint8)
    masks = [torch.tensor([False, False, True]), torch.tensor([0, 1, 1]), torch.tensor([1, 1, 0])]
    means = [light(first, second, hidden) for hidden in masks]
    assert [mean.item() for mean in means] == [250.0, 300.0, 300.0]
    assert [mean.is_floating_point() for mean in means] == [True, True, True]
