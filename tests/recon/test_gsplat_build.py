"""What is set for gsplat's build, and what is left alone."""

from recon.gsplat_build import build_settings, no_build_here, why_no_build


def toolkit(root, *headers):
    """A folder that looks like a CUDA toolkit."""
    (root / "bin").mkdir(parents=True)
    (root / "include").mkdir()
    (root / "bin" / "nvcc").write_text("")
    for header in ("cuda_runtime.h", *headers):
        (root / "include" / header).write_text("")
    return root


def test_only_the_device_s_architecture_is_built_on_all_cores(tmp_path):
    home = toolkit(tmp_path / "cuda-13", "cusparse.h")
    got = build_settings((9, 0), 16, home / "bin" / "nvcc", [], {})
    assert got == {"TORCH_CUDA_ARCH_LIST": "9.0", "MAX_JOBS": "16", "CUDA_HOME": str(home)}


def test_a_wrapper_on_the_path_is_not_taken_for_the_toolkit(tmp_path):
    home, wrapper = toolkit(tmp_path / "cuda"), tmp_path / "usr" / "bin" / "nvcc"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text("exec cuda/bin/nvcc")
    assert build_settings((8, 6), 4, wrapper, [], {}, toolkits=[home])["CUDA_HOME"] == str(home)
    linked = tmp_path / "link"
    linked.symlink_to(home / "bin" / "nvcc")
    assert build_settings((8, 6), 4, linked, [], {}, toolkits=[])["CUDA_HOME"] == str(home)


def test_headers_that_the_toolkit_lacks_come_from_torch_s_wheels(tmp_path):
    small, wheels = toolkit(tmp_path / "cuda"), tmp_path / "nvidia" / "cu13" / "include"
    wheels.mkdir(parents=True)
    (wheels / "cusparse.h").write_text("")
    other = tmp_path / "nvidia" / "nccl" / "include"
    other.mkdir(parents=True)
    got = build_settings((9, 0), 2, small / "bin" / "nvcc", [wheels, other], {"CPATH": "/mine"})
    assert got["CPATH"] == f"/mine:{wheels}"


def test_what_the_user_has_set_stays(tmp_path):
    mine = {"TORCH_CUDA_ARCH_LIST": "7.5;9.0", "MAX_JOBS": "3", "CUDA_HOME": "/elsewhere"}
    assert build_settings((9, 0), 16, toolkit(tmp_path / "cuda") / "bin" / "nvcc", [], mine) == {}
    assert "CUDA_HOME" not in build_settings((9, 0), 1, None, [], {"CUDA_PATH": "/elsewhere"}, toolkits=[])


def test_without_a_compiler_nothing_is_made_up():
    assert build_settings((9, 0), 0, None, [], {}, toolkits=[]) == {"TORCH_CUDA_ARCH_LIST": "9.0", "MAX_JOBS": "1"}


def test_without_code_and_without_a_compiler_gsplat_is_not_chosen(tmp_path):
    assert "no CUDA compiler" in why_no_build(False, None, {}, toolkits=[])
    assert why_no_build(True, None, {}, toolkits=[]) is None
    assert why_no_build(False, tmp_path / "nvcc", {}, toolkits=[]) is None
    home = toolkit(tmp_path / "cuda")
    assert why_no_build(False, None, {"CUDA_HOME": str(home)}, toolkits=[]) is None
    assert why_no_build(False, None, {}, toolkits=[home]) is None


def test_looking_builds_nothing(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert no_build_here() is None or "nvcc" in no_build_here()
