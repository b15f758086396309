"""The CUDA twins on a real device, at real sizes, by the checks that the simulator runs at small ones."""

import pytest
import twin_checks

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]  # other packages may warn
SIZES = [(480, 640), (193, 257), (17, 1), (0, 6)]


@pytest.mark.parametrize("shape", SIZES)
def test_unprojection(shape):
    twin_checks.check_unproject(shape)


@pytest.mark.parametrize("shape", SIZES)
def test_choice_of_a_surface(shape):
    twin_checks.check_choice(shape)


@pytest.mark.parametrize("shape", SIZES)
def test_fusion(shape):
    twin_checks.check_fusion(shape)


@pytest.mark.parametrize("shape", SIZES)
def test_reprojection(shape):
    twin_checks.check_reprojection(shape, target=(640, 480))


@pytest.mark.parametrize(("count", "size"), [(400, (150, 90)), (0, (20, 18))])
def test_depth_statistics(count, size):
    twin_checks.check_statistics(count, size)


def test_wrong_arguments_are_refused():
    twin_checks.check_refusals()
