"""The options behind an opt_level: their defaults, and which overrides each level allows."""

from typing import Any

import torch

LEVELS: dict[str, dict[str, Any]] = {
    "O0": {
        "cast_model_type": torch.float32,
        "patch_torch_functions": False,
        "keep_batchnorm_fp32": None,
        "master_weights": False,
        "loss_scale": 1.0,
    },
    "O1": {
        "cast_model_type": None,
        "patch_torch_functions": True,
        "keep_batchnorm_fp32": None,
        "master_weights": None,
        "loss_scale": "dynamic",
    },
    "O2": {
        "cast_model_type": torch.float16,
        "patch_torch_functions": False,
        "keep_batchnorm_fp32": True,
        "master_weights": True,
        "loss_scale": "dynamic",
    },
    "O3": {
        "cast_model_type": torch.float16,
        "patch_torch_functions": False,
        "keep_batchnorm_fp32": False,
        "master_weights": False,
        "loss_scale": 1.0,
    },
}


class Properties:
    """The options in force; all of amp is off until `select` was called."""

    def __init__(self) -> None:
        self.enabled: Any = False
        self.opt_level: str | None = None
        self.cast_model_type: Any = None
        self.patch_torch_functions: Any = False
        self.keep_batchnorm_fp32: bool | None = None
        self.master_weights: Any = None
        self.loss_scale: float | str = 1.0

    def select(self, opt_level: str) -> None:
        """Take the defaults of a level.

        Raises:
            RuntimeError: there is no such level.
        """
        if opt_level not in LEVELS:
            raise RuntimeError(
                f"Unexpected optimization level {opt_level}: it must be one of 'O0', 'O1', 'O2', 'O3', "
                "written with the letter O and not with the number zero."
            )
        self.enabled = True
        self.opt_level = opt_level
        for name, value in LEVELS[opt_level].items():
            setattr(self, name, value)

    def override(self, name: str, value: Any) -> None:
        """Replace one option of the level.

        Raises:
            RuntimeError: the level does not go with that value.
            AssertionError: keep_batchnorm_fp32 is not a boolean.
            ValueError: loss_scale is neither "dynamic" nor a number.
        """
        setattr(self, name, getattr(self, "_checked_" + name)(value))

    def _checked_cast_model_type(self, value: Any) -> Any:
        if self.opt_level == "O1" and value is not False and value is not torch.float32:
            raise RuntimeError(f"O1 leaves the weights in fp32: cast_model_type={value} needs O2 or O3.")
        return value

    def _checked_patch_torch_functions(self, value: Any) -> Any:
        if self.opt_level != "O1" and value:
            raise RuntimeError("patch_torch_functions=True is only possible with opt_level='O1'.")
        return value

    def _checked_keep_batchnorm_fp32(self, value: Any) -> bool:
        if self.opt_level == "O1":
            raise RuntimeError(f"O1 casts no batch norm: keep_batchnorm_fp32={value} must be None.")
        flag = {"True": True, "False": False}.get(value, value) if isinstance(value, str) else value
        assert flag is True or flag is False, f"keep_batchnorm_fp32 must be a boolean, found {value}"
        return flag

    def _checked_master_weights(self, value: Any) -> Any:
        if self.opt_level == "O1":
            raise RuntimeError("O1 leaves the weights in fp32: master_weights must be None.")
        return value

    def _checked_loss_scale(self, value: Any) -> float | str:
        return "dynamic" if value == "dynamic" else float(value)
