"""What can be wrong with a GPU is said in one sentence, with what to do; nothing falls back to the processor."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from isobag import IDKPointDetector
from isobag.backends import Compute

if importlib.util.find_spec("torch") is None:
    pytest.skip('torch is not installed: pip install "isobag[gpu]" to run these tests', allow_module_level=True)
import torch

from isobag.backends.torch import devices

HAS_GPU = torch.cuda.is_available()


def is_one_sentence(text):
    """Whether a text is one line, ends as a sentence does, and names what to do instead."""
    return "\n" not in text and text.endswith(".") and 'device="cpu"' in text


def says(error):
    def fail(*_):
        raise error

    return fail


@pytest.fixture
def cuda(monkeypatch):
    """A torch that seems to have CUDA, a driver and a GPU; tests take away one of them."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setitem(sys.modules, "triton", sys)
    return monkeypatch


def problem():
    return devices.problem_with_cuda.__wrapped__()


def test_nothing_is_wrong_where_all_is_there(cuda):
    assert problem() is None


def test_a_torch_without_cuda_is_named(cuda):
    cuda.setattr(torch.version, "cuda", None)
    assert "is built without CUDA; install one with it" in problem()
    assert is_one_sentence(problem())


def test_a_missing_driver_is_named(cuda):
    reason = "Found no NVIDIA driver on your system.\nPlease check that you have an NVIDIA GPU."
    cuda.setattr(torch.cuda, "init", says(RuntimeError(reason)))
    assert problem().startswith("no working NVIDIA driver (Found no NVIDIA driver on your system.); install or update")
    assert is_one_sentence(problem())


def test_cuda_that_does_not_start_is_named(cuda):
    cuda.setattr(torch.cuda, "init", says(RuntimeError("CUDA error: unknown error")))
    assert problem().startswith("CUDA does not start (CUDA error: unknown error); see that nvidia-smi works")
    assert is_one_sentence(problem())


def test_a_missing_gpu_is_named(cuda):
    cuda.setattr(torch.cuda, "device_count", lambda: 0)
    assert problem().startswith("the driver shows no GPU; see CUDA_VISIBLE_DEVICES and nvidia-smi")
    assert is_one_sentence(problem())


def test_a_missing_triton_is_named(cuda):
    cuda.setitem(sys.modules, "triton", None)
    assert problem().startswith("Triton, which compiles the kernels, is missing: pip install triton")
    assert is_one_sentence(problem())


def test_too_little_memory_is_named(monkeypatch):
    properties = type("Properties", (), {"total_memory": 8 << 30})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    with (
        pytest.raises(MemoryError, match=r'^the GPU \(8 GiB\) has too little free memory; .* device="cpu" \(Tried'),
        devices.explained(torch.device("cpu")),
    ):
        raise torch.cuda.OutOfMemoryError("Tried to allocate 9 GiB.\nAnd more lines.")


def test_a_triton_that_cannot_compile_is_named():
    error = type("CompilationError", (Exception,), {"__module__": "triton.compiler.errors"})
    with pytest.raises(RuntimeError) as raised, devices.explained(torch.device("cpu")):
        raise error("at 3:4:\n  some code\nno C compiler found")
    assert str(raised.value).startswith("Triton could not compile a kernel for this GPU (no C compiler found); install")
    assert is_one_sentence(str(raised.value))


def test_other_errors_pass_as_they_are():
    with pytest.raises(KeyError, match="some key"), devices.explained(torch.device("cpu")):
        raise KeyError("some key")


@pytest.mark.skipif(HAS_GPU, reason="the GPU that is there is used")
@pytest.mark.parametrize("name", ["fit", "fit_predict"])
def test_no_detector_falls_back_to_the_processor(monkeypatch, name):
    monkeypatch.setattr(devices, "problem_with_cuda", lambda: 'there is none, or use device="cpu".')
    with pytest.raises(RuntimeError, match=r"^device='cuda': there is none"):
        getattr(IDKPointDetector(device="cuda"), name)(np.zeros((30, 2)))


def test_the_device_decides_what_computes():
    assert Compute(device="cuda").name == Compute(device="cuda:1").name == "torch"
    assert Compute().name == Compute(device="cpu").name == "numba"
    assert Compute(device="auto").name == ("torch" if HAS_GPU else "numba")
    assert Compute().beside("cuda:0") == Compute("torch", device="cuda:0")
    with pytest.raises(ValueError, match=r"X is on cuda:0 and device='cpu'"):
        Compute(device="cpu").beside("cuda:0")
    with pytest.raises(ValueError, match="works in host memory"):
        Compute("numba").beside("cuda:0")
    with pytest.raises(ValueError, match="device='gpu'"):
        IDKPointDetector(device="gpu").fit(np.zeros((30, 2)))


def test_torch_is_imported_only_when_asked_for():
    code = (
        "import isobag, sys; isobag.IDKPointDetector(5).fit([[0.0], [1.0], [3.0]]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_torch_is_named():
    code = (
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] == 'torch':\n            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "from isobag import IDKPointDetector\n"
        "try:\n    IDKPointDetector(device='cuda').fit([[0.0], [1.0], [3.0]])\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        'device="cuda" needs PyTorch, which is not installed: pip install "isobag[gpu]", or use device="cpu".'
    )


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_GPU, reason="no NVIDIA GPU that torch can use")
def test_a_gpu_that_is_too_small_is_named_by_detectors(rng):
    X = torch.from_numpy(rng.normal(size=(400_000, 40))).cuda()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (1 << 26)) / total)
    try:
        with pytest.raises(MemoryError, match=r"^the GPU \(\d+ GiB\) has too little free memory; free some"):
            IDKPointDetector(random_state=0).fit(X)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
