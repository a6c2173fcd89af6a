"""Dtypes: what two kinds of number become together."""

import re

import pytest
import torch

from sensei import answer, koan


@koan(
    see="torch.result_type",
    hint=[
        "Four categories, from low to high: bool, integer, floating point, complex.",
        "A Python number counts by its category alone. When does that change anything?",
    ],
    why=(
        "A Python number has a category and no width. Same category as the tensor or lower: the "
        "tensor's dtype stays. A float beside integers is higher: the default dtype steps in."
    ),
    wrong={
        "[torch.float32, torch.int64, torch.float32]": (
            "As a tensor of its own, the number would get that width. Beside a tensor it has none."
        ),
        "[torch.float16, torch.int8, torch.int8]": (
            "An integer tensor cannot hold a fraction, so the product has to leave the integers."
        ),
        "[torch.float16, torch.int8, torch.float16]": (
            "Nothing picks the narrowest float that would do. A setting decides, not the values."
        ),
    },
    right=["[torch.half, torch.int8, torch.float]"],
)
def test_plain_numbers_beside_tensors():
    """Multiply tensors by plain Python numbers. Write the dtypes of the three products, in
    order."""
    halves = torch.ones(2, dtype=torch.float16)
    bytes_ = torch.ones(2, dtype=torch.int8)
    products = [halves * 2.5, bytes_ * 2, bytes_ * 2.5]
    assert [p.dtype for p in products] == answer([torch.float16, torch.int8, torch.float32])


@koan(
    see="torch.result_type",
    hint=[
        "Within one category, a tensor that has dimensions outranks one that has none.",
        "Which of the two comes from the higher category in the third product?",
    ],
    why=(
        "A tensor without dimensions is treated nearly like a Python number: it wins only with a "
        "higher category. Then, unlike a Python number, it brings its own width along."
    ),
    wrong={
        "[torch.float64, torch.float64, torch.float64]": (
            "The wider dtype wins between equals. A tensor without dimensions is no equal of one "
            "that has some."
        ),
        "[torch.float32, torch.float32, torch.float64]": (
            "One element is not the same as no dimension: shape (1,) takes part like any other."
        ),
        "[torch.float32, torch.float64, torch.float32]": (
            "A Python 0.5 would give that. This 0.5 is a tensor, and it knows its width."
        ),
    },
    right=["[torch.float, torch.double, torch.double]"],
)
def test_a_tensor_without_dimensions():
    """The same 0.5, once without dimensions and once with one. Write the dtypes of the three
    products, in order."""
    weights = torch.ones(3, dtype=torch.float32)
    counts = torch.ones(3, dtype=torch.int64)
    scale = torch.tensor(0.5, dtype=torch.float64)
    products = [weights * scale, weights * scale.reshape(1), counts * scale]
    assert [p.dtype for p in products] == answer([torch.float32, torch.float64, torch.float64])


@koan(
    see="torch.promote_types",
    hint=[
        "PyTorch has two floating point dtypes of this size. What does each give up?",
        "Neither can hold all the numbers of the other. Do both of yours have a dimension?",
    ],
    why=(
        "float16 keeps more digits, bfloat16 reaches further. Neither holds the other's numbers, "
        "so together they go to the smallest dtype that holds both: float32."
    ),
    wrong={
        "a = torch.ones(3, dtype=torch.float16)\nb = torch.ones(3, dtype=torch.float16)": (
            "Two of one kind stay that kind, however large the sum: too large becomes inf."
        ),
        "a = torch.ones(3, dtype=torch.float16)\nb = torch.tensor(1.0, dtype=torch.bfloat16)": (
            "Without a dimension b has no say within its category."
        ),
        "a = torch.ones(3, dtype=torch.float16)\nb = torch.ones(3, dtype=torch.int16)": (
            "An integer tensor never widens a floating point one."
        ),
        "a = torch.float16\nb = torch.bfloat16": (
            "A dtype is not yet a tensor. It is the kind of number that a tensor is made of."
        ),
        "a = torch.half\nb = torch.bfloat16": (
            "A dtype is not yet a tensor. It is the kind of number that a tensor is made of."
        ),
        "a = torch.half\nb = torch.half": (
            "A dtype is not yet a tensor, and two tensors of one kind stay that kind."
        ),
    },
    right=[
        "a = torch.zeros(1).bfloat16()\nb = torch.zeros(1).half()",
        "a = torch.tensor(1.0, dtype=torch.float16)\nb = torch.tensor(1.0, dtype=torch.bfloat16)",
    ],
    at={
        "torch.is_tensor(a)": (
            "This line only asks whether `a` and `b` are tensors. Print them: what are they now?"
        ),
        "t.is_floating_point()": (
            "Both are tensors. This line asks whether both hold floating point numbers. What is "
            "the dtype of each?"
        ),
        "a + b": (
            "Both hold floating point numbers. This line wants the bytes of one element, of "
            "`a`, `b` and their sum. Which is not as asked?"
        ),
    },
)
def test_two_small_floats_with_a_larger_sum():
    """Make two floating point tensors, `a` and `b`. Each may spend only two bytes on an
    element, yet each element of their sum must take four."""
    # answer:
    a = torch.ones(3, dtype=torch.float16)
    b = torch.ones(3, dtype=torch.bfloat16)
    # end
    assert torch.is_tensor(a) and torch.is_tensor(b)
    assert [t.is_floating_point() for t in (a, b)] == [True, True]
    assert [t.element_size() for t in (a, b, a + b)] == [2, 2, 4]


@koan(
    see="torch.floor_divide",
    hint=[
        "`//` drops the fraction. Towards which side?",
        "Quotient times 2, plus remainder, must give the number back. What does Python say?",
    ],
    why=(
        "`//` rounds down and `%` takes the sign of the divisor, as in Python. C rounds towards "
        "zero: that is torch.div(x, 2, rounding_mode='trunc'), and torch.fmod for the rest."
    ),
    wrong={
        ("[3, -3]", "[1, -1]"): "C and its family round towards zero; PyTorch sides with Python.",
        ("[3, -3]", "[1, 1]"): "Check it: twice -3, plus 1, is not -7.",
        ("[3.5, -3.5]", "[0, 0]"): "That is what `/` gives. `//` keeps whole numbers whole.",
    },
    at={
        "(x // 2).tolist()": (
            "This line asks for the two quotients. Which whole number does `//` take for 3.5, "
            "and which for -3.5?"
        ),
        "(x % 2).tolist()": (
            "The quotients are right. Multiply each of them by two: what must be added to come "
            "back to the number in `x`?"
        ),
    },
)
def test_whole_numbers_divided():
    """Divide a positive and a negative number by two. Write the quotients, then the
    remainders, as lists."""
    x = torch.tensor([7, -7])
    assert (x // 2).tolist() == answer([3, -4])
    assert (x % 2).tolist() == answer([1, 1])


@koan(
    see="torch.set_default_dtype",
    hint=[
        "The default steps in where a fraction is needed and nobody has named a width.",
        "Who has named a width here? And whose complex numbers are pairs of floats?",
    ],
    why=(
        "The default dtype fills in a missing float width, also for `/` between integers, and for "
        "the two halves of a complex number. Integers and tensors with a float dtype ignore it."
    ),
    wrong={
        "[torch.float64, torch.complex128, torch.float64, torch.float16]": (
            "The default is for numbers with a fraction. A list of whole numbers has its own rule."
        ),
        "[torch.int64, torch.complex64, torch.float32, torch.float16]": (
            "So they would be with the default as it usually is. For this moment it is another "
            "one, and two of the four ask for it."
        ),
        "[torch.float64, torch.float64, torch.float64, torch.float64]": (
            "Not everything follows. The default fills in a width that nobody has named; it never "
            "turns one kind of number into another."
        ),
        "[torch.int64, torch.complex64, torch.float64, torch.float16]": (
            "A complex number is a pair of floats, and these floats follow the default too."
        ),
        "[torch.int64, torch.complex128, torch.int64, torch.float16]": (
            "`/` is true division: it leaves the integers even when the result is whole."
        ),
        "[torch.int64, torch.complex128, torch.float32, torch.float16]": (
            "Nothing in an integer tensor asks for 32 bits once it must become a float."
        ),
        "[torch.int64, torch.complex128, torch.float64, torch.float64]": (
            "A tensor that has a float dtype keeps it. The default never overrules a choice."
        ),
    },
    right=["[torch.long, torch.cdouble, torch.double, torch.half]"],
)
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
    assert [t.dtype for t in made] == answer(
        [torch.int64, torch.complex128, torch.float64, torch.float16]
    )


@koan(
    see="torch.Tensor.to",
    hint=[
        "Print `image + 100` for a bright pixel. A byte has 256 values, and no error message.",
        "At which moment is the damage done: at the sum, at the clamp, or at the way back?",
    ],
    why=(
        "Integers wrap around in silence: 200 + 100 is 44 in uint8. Widen before the sum, clamp, "
        "and only then return to bytes. Or clamp before the sum, where nothing can overflow."
    ),
    wrong={
        "return (image + 100).int().clamp(max=255).to(torch.uint8)": (
            "The sum was made in bytes; widening it afterwards keeps the damage."
        ),
        "return (image.int() + 100).to(torch.uint8)": (
            "The way back wraps as well: nothing stops at the brightest value by itself."
        ),
        "return (image + torch.tensor(100)).clamp(max=255)": (
            "This 100 has 64 bits and no dimension, so the image's own dtype decides."
        ),
        "return (image.int() + 100).clamp(max=255)": (
            "The numbers are right. But the picture came in bytes, and should leave in bytes."
        ),
        "return (image.float() + 100).clamp(max=255)": (
            "The numbers are right. But the picture came in bytes, and should leave in bytes."
        ),
    },
    right=[
        "return image.clamp(max=155) + 100",
        "return (image + 100.0).clamp(max=255).to(torch.uint8)",
        "return (image.to(torch.int64) + 100).clamp(0, 255).to(torch.uint8)",
        "return torch.where(image > 155, 255, image + 100).to(torch.uint8)",
    ],
    at={
        "brighten(dark).tolist()": (
            "These dark pixels all have room for 100 more, so nothing has to wrap or to be cut "
            "off. Print what comes out."
        ),
        "dtypes == [torch.uint8": (
            "All pixels have the right value. This line looks at the dtypes: as what did the "
            "pictures come in, and as what do they leave?"
        ),
        "brighten(light).tolist()": (
            "The dark pixels are right. These bright ones have no room for 100 more. Print what "
            "comes out: how far should each of them go?"
        ),
    },
)
def test_a_brighter_picture():
    """Each pixel should become brighter by 100, and no brighter than 255. The bright ones turn
    dark instead. Repair the marked line; the picture stays uint8."""

    def brighten(image):
        # answer:
        return (image.int() + 100).clamp(max=255).to(torch.uint8)
        # given:
        # return (image + 100).clamp(max=255)
        # end

    dark = torch.tensor([0, 100, 155], dtype=torch.uint8)
    light = torch.tensor([156, 200, 255], dtype=torch.uint8)
    assert brighten(dark).tolist() == [100, 200, 255]
    assert brighten(light).tolist() == [255, 255, 255]
    dtypes = [brighten(image).dtype for image in (dark, light)]
    assert dtypes == [torch.uint8, torch.uint8]


@koan(
    see="torch.Tensor.mul_",
    hint=[
        "`counts *= 0.5` writes into the tensor that is there. Which dtype has that one?",
        "And which dtype would `counts * 0.5` have? Some koans ago you multiplied such a pair.",
    ],
    why=(
        "The product is a float32 tensor, and counts is int64 and cannot become one in place. "
        "`counts = counts * 0.5` is fine: it gives the name to a new tensor."
    ),
    wrong={
        "['Double', 'Long']": (
            "A Python float has 64 bits, but beside a tensor it counts without a width."
        ),
        "['Float', 'Int']": "Int has 32 bits. torch.tensor makes wider integers of Python's.",
        "['Long', 'Float']": "The other way round: the product comes first, then its place.",
        "['Long', 'Long']": "Then nothing would be wrong. The product leaves the integers.",
    },
)
def test_halve_the_counts_in_place():
    """`counts * 0.5` works. In place it does not.

    The message names the product's dtype, then that of the place it should go to, by old
    names: Int and Long for 32 and 64 bits; Half, Float and Double for 16, 32 and 64. Which two?
    """
    counts = torch.tensor([2, 4])
    with pytest.raises(Exception) as caught:
        counts *= 0.5
    assert re.findall(r"type (\w+)", str(caught.value)) == answer(["Float", "Long"])


@koan(
    see="torch.can_cast",
    hint=[
        "Remember the categories: bool, integer, floating point, complex.",
        "The rule looks at categories only, never at how many bits get lost.",
    ],
    why=(
        "Only a step down in category is refused. Within a category a result may be narrowed, so "
        "`bytes_ += longs` can wrap and `halves += doubles` can overflow, without a word."
    ),
    wrong={
        '["double to half", "long to byte", "float to long", "complex to float", "long to bool"]': (
            "Losing bits is no ground for a refusal."
        ),
        '["float to long", "complex to float"]': (
            "bool is a category of its own, the lowest one. It is not a very small integer."
        ),
        "[]": "`.to()` makes all six moves, since you ask for it by name. This rule is stricter.",
    },
)
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
    assert refused == answer(["float to long", "complex to float", "long to bool"])


@koan(
    see="torch.logical_not",
    hint=[
        "Print keep, and its dtype. What do numbers in brackets mean, and what does a mask mean?",
        "In brackets, integers are positions. What you write must still be bool.",
    ],
    why=(
        "A comparison gives bool, and only bool is a mask: as integers, 0 and 1 pick words number "
        "0 and 1. `~` turns a bool mask over, and the result is a mask again."
    ),
    wrong={
        "keep = 1 - padding": (
            "PyTorch refuses: bool has no subtraction. Read its message to the end."
        ),
        "keep = not padding": (
            "`not` asks for one truth value. This tensor has one for each word."
        ),
        "keep = ~padding.int()": (
            "On integers `~` flips every bit: 0 and 1 become -1 and -2, two positions from the end."
        ),
        "keep = padding": "True marks what comes out. Here it marks the places to leave out.",
        "keep = -padding.int() + 1": "Another spelling of the same integers.",
    },
    right=[
        "keep = padding.logical_not()",
        "keep = torch.logical_not(padding)",
        "keep = padding == 0",
        "keep = padding ^ True",
        "keep = words != 0",
        "keep = (1 - padding.int()).bool()",
    ],
    at={
        "return words[keep]": (
            "`keep` could not be used in brackets. Print its dtype and its shape: a mask "
            "has one entry for each word."
        ),
        "real_words(torch.tensor([6": (
            "The first words came out right, these did not. Print `keep` for both: is it "
            "right for each place?"
        ),
        "real_words(torch.tensor([8": (
            "This line wants the words that are no padding, in their order. Print `padding` and "
            "`keep` side by side: is each place right?"
        ),
    },
)
def test_turn_a_mask_over():
    """`padding` marks the places to leave out. We want the others, and get words twice.
    Repair the marked line."""

    def real_words(words):
        padding = words == 0
        # answer:
        keep = ~padding
        # given:
        # keep = 1 - padding.int()
        # end
        return words[keep]

    assert real_words(torch.tensor([8, 5, 0])).tolist() == [8, 5]
    assert real_words(torch.tensor([6, 0, 0, 0])).tolist() == [6]


@koan(
    see="torch.Tensor.bool",
    hint=[
        "Three things can go wrong: the sum, the mask and the mean. Which dtype does each need?",
        "A mask of whole numbers must become bool before it is turned over.",
        "mean() divides, so it wants a floating point tensor.",
    ],
    why=(
        "Widen before the sum, make the mask bool before `~`, make the numbers floats before the "
        "mean. Most bugs with dtypes are one of these three, and two of them are silent."
    ),
    wrong={
        "return (first + second)[~hidden.bool()].float().mean()": (
            "The bytes have wrapped before the floats come."
        ),
        "return (first.int() + second.int())[~hidden].float().mean()": (
            "Right for the bool mask. For 0 and 1, `~` gives positions from the end."
        ),
        "return (first.int() + second.int())[~hidden.bool()].mean()": (
            "There is no mean of integers: PyTorch will not guess a dtype for it."
        ),
        "return (first.int() + second.int())[hidden == 1].float().mean()": (
            "These are the hidden pixels."
        ),
    },
    right=[
        "return (first.float() + second.float())[hidden == 0].mean()",
        "return (first.double() + second)[hidden.logical_not()].mean()",
        "both = first.long() + second\nkeep = ~hidden.bool()\nreturn both[keep].sum() / keep.sum()",
    ],
    at={
        "mean.item()": (
            "This line looks at the values of the three means. Print the sums, the mask and the "
            "mean for each: which one is off first?"
        ),
        "mean.is_floating_point()": (
            "All three means have the right value. This line looks at their dtypes: is each of "
            "them a floating point tensor?"
        ),
    },
)
def test_the_light_of_two_pictures():
    """Lay two byte pictures over each other: add them, pixel by pixel. Then write the mean of
    the sums that are not hidden. `hidden` marks pixels with True and False, or with 1 and 0."""

    def light(first, second, hidden):
        # answer:
        visible = ~hidden.bool()
        return (first.int() + second.int())[visible].float().mean()
        # end

    first = torch.tensor([200, 100, 50], dtype=torch.uint8)
    second = torch.tensor([100, 100, 250], dtype=torch.uint8)
    masks = [torch.tensor([False, False, True]), torch.tensor([0, 1, 1]), torch.tensor([1, 1, 0])]
    means = [light(first, second, hidden) for hidden in masks]
    assert [mean.item() for mean in means] == [250.0, 300.0, 300.0]
    assert [mean.is_floating_point() for mean in means] == [True, True, True]
