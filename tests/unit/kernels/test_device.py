# SPDX-License-Identifier: Apache-2.0
"""What the device's driver reads in the words of ptxas and the listings of nvdisasm, as these wrote them."""

from __future__ import annotations

import pytest

from derive.kernels.drivers.device import Usage, matrix_instructions, read_instructions, read_usage, refusal

PTXAS = """\
ptxas info    : 0 bytes gmem, 24 bytes cmem[4]
ptxas info    : Compiling entry function 'main_kernel_1' for 'sm_90a'
ptxas info    : Function properties for main_kernel_1
    640 bytes stack frame, 128 bytes spill stores, 132 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 640 bytes cumulative stack size
ptxas info    : Compiling entry function 'main_kernel' for 'sm_90a'
ptxas info    : Function properties for main_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 240 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 158.649 ms
ptxas info    : Function properties for _Z4picki
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
"""

BLACKWELL = """\
\t.target\tsm_121a

//--------------------- .text.mx                  --------------------------
\t.section\t.text.mx,"ax",@progbits
        .global         mx
        .size           mx,(.L_x_6 - mx)
mx:
.text.mx:
        /*0000*/                   LDC R1, c[0x0][0x37c] ;
        /*0010*/                   LDCU.64 UR4, c[0x0][0x358] ;
        /*0020*/              @!P0 BRA `(.L_x_1) ;
        /*0030*/             @!UP0 UMOV UR6, 0x1 ;
        /*0040*/                   QMMA.16832.F32.E4M3.E2M1 R4, R8, R2, R4 ;
        /*0050*/                   QMMA.SF.16832.F32.E4M3.E4M3.E8 R4, R8, R2, R4, R10, R11, URZ ;
        /*0060*/                   QMMA.SF.16832.F32.E4M3.E4M3.E8 R4, R8, R2, R4, R10, R11, URZ ;
        /*0070*/                   OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X R4, R8, R2, R4, R10, R11, URZ ;
        /*10080*/                  FFMA R0, R0, R1, R2 ;
.L_x_1:
        /*10090*/                  BRA `(.L_x_1);
        /*100a0*/                  NOP;
.L_x_6:

//--------------------- SYMBOLS --------------------------
\t.type\t\t.nv.reservedSmem.offset0,@object
"""

HOPPER = """\
.text.main_kernel:
        /*0000*/                   WARPGROUP.ARRIVE ;
        /*0010*/                   HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, gsb0 ;
        /*0020*/                   QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR8], RZ, !UPT ;
        /*0030*/         {         HMMA.16816.F32.BF16 R4, R8, R2, RZ ;
        /*0038*/                   IMMA.16832.S8.S8 R12, R8.ROW, R2.COL, RZ }
        /*0040*/                   DMMA.8x8x4 R4, R8, R2, RZ ;
        /*0050*/                   HMMA.SP.16832.F32.BF16 R4, R8, R2, R4, R9, 0x0 ;
"""


def test_usage_is_that_of_the_entry_by_its_whole_name() -> None:
    assert read_usage(PTXAS, "main_kernel_1") == Usage(255, 0, 640, 128, 132)


def test_spills_of_what_a_kernel_calls_are_its_own() -> None:
    assert read_usage(PTXAS, "main_kernel") == Usage(240, 1024, 0, 4, 8)


def test_usage_of_a_kernel_that_ptxas_does_not_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not say what main uses"):
        read_usage(PTXAS, "main")


def test_instructions_are_read_with_their_modifiers_and_without_predicates_and_labels() -> None:
    names = list(read_instructions(BLACKWELL))
    assert names[:4] == ["LDC", "LDCU.64", "BRA", "UMOV"]
    assert names[-3:] == ["FFMA", "BRA", "NOP"]
    assert len(names) == 11


def test_instructions_of_a_pair_that_is_issued_together_are_two() -> None:
    assert list(read_instructions(HOPPER))[3:5] == ["HMMA.16816.F32.BF16", "IMMA.16832.S8.S8"]


def test_matrix_instructions_are_counted_by_full_name_in_order() -> None:
    assert list(matrix_instructions(list(read_instructions(BLACKWELL))).items()) == [
        ("OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X", 1),
        ("QMMA.16832.F32.E4M3.E2M1", 1),
        ("QMMA.SF.16832.F32.E4M3.E4M3.E8", 2),
    ]


def test_matrix_instructions_of_warp_groups_and_of_other_types_are_found() -> None:
    assert set(matrix_instructions(list(read_instructions(HOPPER)))) == {
        "DMMA.8x8x4",
        "HGMMA.64x64x16.F32",
        "HMMA.16816.F32.BF16",
        "HMMA.SP.16832.F32.BF16",
        "IMMA.16832.S8.S8",
        "QGMMA.64x64x32.F32.E4M3.E4M3",
    }


def test_a_listing_without_code_has_no_instructions() -> None:
    assert list(read_instructions("\t.target\tsm_90a\n")) == []


@pytest.mark.parametrize("option", ["--split-compile=2", "--ptxas-options=--split-compile=0", "-G", "--device-debug"])
def test_options_with_which_nvcc_makes_other_bytes_at_each_run_are_refused_by_name(option: str) -> None:
    assert (refusal(["-std=c++20", option]) or "").startswith(f"{option} is not for kernels: nvcc ")


def test_other_options_are_let_through() -> None:
    assert (
        refusal(["-std=c++20", "-lineinfo", "--use_fast_math", "-DG", "--ptxas-options=--register-usage-level=5"])
        is None
    )
