"""Names of entries of timing solutions: spellings, those that leave the phase alone, and those that are not understood.

They are the names of TEMPO (inpar.f), TEMPO2 (readParfile.C), PINT (its components and their aliases), LALSuite
(ReadPulsarParFile.c) and the ATNF catalogue. A .par file's entry that is in none of the lists, and that no part of the
solution takes, is an error: see `jfstat.pulsars.entries.Entries.require_all_taken`.
"""

from __future__ import annotations

import re

ALIASES = {
    "PSR": "NAME",
    "PSRJ": "NAME",
    "PSRB": "NAME",
    "JNAME": "NAME",
    "RA": "RAJ",
    "DEC": "DECJ",
    "F": "F0",
    "P": "P0",
    "PDOT": "P1",
    "LAMBDA": "ELONG",
    "BETA": "ELAT",
    "PMLAMBDA": "PMELONG",
    "PMBETA": "PMELAT",
    "E": "ECC",
    "ECCDOT": "EDOT",
    "A1DOT": "XDOT",
    "FB": "FB0",
    "DTHETA": "DTH",
    "STIGMA": "STIG",
    "VARSIGMA": "STIG",
    "NHARM": "NHARMS",
    "EXPPH": "EXPDIPAMP",
    "GAUSAMP": "CHROMGAUSS_AMP",
}
"""Usual names of entries by their other spellings; of numbered entries without ``_`` and number."""
IDLE = re.compile(
    "|".join(
        (
            # the name, the programs that made the solution, and how they fitted it
            "NAME|BNAME|INFO|MODE|NITS|IBOOT|NTOA|TRES|DMRES|CHI2|CHI2R|CHISQ|START|FINISH|TRACK|NOTRACK|DMDATA|NPRNT",
            "TZR(MJD|SITE|FRQ|FREQ)?|PHOFF|REFPHS|TSPAN|NSPAN|HEAD|TOAS|ROBUST|MEAN|WEIGHT|AVERAGERES|VERSION|TEMPO1",
            "CONSTRAIN|CONSTRAINT_EFACTOR|AUTO_CONSTRAINTS|SIMULATE|CREATOR|IPM|DCOVFILE|GAIN|PHIMIN",
            # radio telescopes, their clocks and the Earth's rotation; the template's are those of gravitational waves'
            # detectors, as are solar-system delays (planets' Shapiro delay stays below 2e-7 s)
            "CLK|CLOCK|CLK_CORR_CHAIN|EOP_FILE|T2CMETHOD|TIMEEPH|DILATEFREQ|DIALATEFREQ|CORRECT_TROPOSPHERE",
            "PLANET_SHAPIRO2?|NO_SS_SHAPIRO|TELEPOCH|TEL[XYZ]\\d*|S?TEL_(D[XYZ]|V[XYZ]|[XYZ]0|CLK_OFFS)\\d*|OBSERVATORY",
            "JUMP_?\\d*|SATJUMP|FJUMP|TOFFSET|DMJUMP\\d*|FDJUMPDM\\d*|FDJUMPLOG|FD\\d+JUMP\\d*|FDJUMP\\d+",
            # the interstellar medium and the solar wind, which only radio waves feel
            "DM|DM\\d+|DMEPOCH|DMX|DMX(R1|R2|EP|F1|F2)?_\\d+|DMWX(EPOCH|(FREQ|SIN|COS)_\\d+)|DM_(SERIES|[SC]1YR)|DMOFF",
            "DMMODEL|_DM|DMVAL\\w*|WAVDM_OM|WAVDM\\d+|WAVEEPOCHD|CM|CM\\d+|CMEPOCH|TNCHROMIDX|CMX(R1|R2)?_\\d+",
            "CMWX(EPOCH|(FREQ|SIN|COS)_\\d+)|RM|NE_SW\\d*|NE1AU|SOLARN0|SWM|SWP|SWEPOCH|SWX(DM|P|R1|R2)_\\d+",
            "NE_SW_(SIN|IFUNC)|_NE_SW|DMVAR\\d|DMX1|DMXF[12]|DMXFIX|NDDM|XMX\\w*|SX(R1|R2|ER)?_\\d+|FD\\d+|FDD[CI]",
            # noise of the arrival times
            "T2EFAC\\d*|T2EQUAD\\d*|EFAC\\d*|EQUAD\\d*|E[SC]*CORR\\d*|TNEF\\d*|TNEQ\\d*|TNSQ|TNS?ECORR\\d*|DMEFAC\\d*",
            "DMEQUAD\\d*|RNAMP|RNIDX|(ADD)?TNGLOBALE[FQ]|WHITE_NOISE_MODEL|TNSUBTRACT(DM|RED|CHROM)",
            "TN(RED|DM|CHROM|SW)(AMP|GAM|C|FLOG|FLOG_FACTOR|TSPAN|CORNER|FLOW)|TN(BAND|GROUP|SHAPELET|DME)\\w*|TN_QP\\w+",
            "TDSW\\w+",
            # epochs and frequencies of effects whose amplitudes are counted
            "WAVEEPOCH|WAVE_OM|WAVE_FREQ|WXEPOCH|WXFREQ_\\d+|EXPDIP(EPS|FREF|EP_\\d+|IDX_\\d+|TAU_\\d+)",
            "EXP(EP|TAU|INDEX)_\\d+|GAUS(EP|SIG|INDEX)_\\d+|CHROMGAUSS_(FREF|(EPOCH|CHROMIDX|SIGN|LOGSIG)_\\d+)",
            # amplitudes of gravitational waves (LALSuite, CWInPy)
            "H0(_F)?|APLUS|ACROSS|PHI0|PSI|COSIOTA|IOTA|C2[12]|PHI2[12]|Q22|LAMBDAPIN",
            "(COS)?THETA|I21|I31|TRANSIENT(STARTTIME|TAU)",
            "(HPLUS|HCROSS|HSCALAR[BL]|HVECTOR[XY]|(PSI|PHI0)(TENSOR|SCALAR|VECTOR))(_F)?",
            # what a catalogue tells besides the timing
            "DIST_\\w+|DIST1|ASSOC|BSURF(_I)?|B_LC|AGE(_I)?|EDOT_I|EDOTD2|PMTOT|VTRANS|P1_I|TYPE|SURVEY|OSURVEY|DATE",
            "NGLT|G[LB]|XX|YY|ZZ|S\\d{2,}|R_LUM\\d*|SPINDX|W10|W50|TAU_SC|MIN(MASS|OMDOT)|MEDMASS|BINCOMP",
        )
    )
)
"""Entries that leave the phase of a continuous wave alone, or change it by a constant."""
LEFT_OUT = re.compile(
    "|".join(
        (
            "S?IFUNC\\d*|S?ORBIFUNC\\d*|S?QIFUNC\\w*|_CM|PW(START|STOP|EP|PH|F0|F1|F2)_\\d+|BRAKE|PMRV|DSHK|D_AOP|ORBPX",
            "PM(RA|DEC|ELONG|ELAT|LAMBDA|BETA)2|IPERHARM|DMASSPLANET\\d+|DPHASEPLANET\\d+|WAVE_SCALE|EPH(EM)?_FILE|PHASE",
            "GW(M|CS|B|ECC|_)\\w*|GW_\\w+|CGW\\w*|QUAD\\w*|DF1|VLBIA[XYZ]|STATE_?SWITCH\\w*",
            "XDOT\\d+|X2DOT|A1DOT2|A2DOT|EDOT\\d+|E2DOT|OMDOT\\d+|OM2DOT|PB2DOT|XOMDOT|MTOT|MP|AFAC|BPP?|K[12]",
            "BPJ(EP|PH|A1|EC|OM|PB)_\\d+|T0X_\\d+|A1X_\\d+|XR[12]_\\d+|BINARY2|KINIAU|KOMIAU|PLAN|T?FBJ\\w*",
            "COTCHI0|PAASCNODE|PPNGAMMA|SHAPHOF",
        )
    )
)
"""Entries that change the phase in ways that are not understood here: only without effect, as zeros, are they taken."""
SECOND = re.compile(
    r"(A1|PB|T0|TASC|E|ECC|OM|EPS[12]|M2|SINI|PBDOT|XDOT|X2DOT|A1DOT2?|OMDOT|E(PS[12])?DOT|GAMMA|[AB]0|DR|DTH(ETA)?)_\d+"
)
"""Entries of a second companion."""
ORBIT = re.compile(
    "BINARY|PB|FB\\d+|A1|T0|TASC|ECC|OM|EPS[12]|[EX]DOT|EPS[12]DOT|OMDOT|LNEDOT|X?PBDOT|GAMMA|M2|SINI|SHAPMAX|H[34]|STIG|NHARMS|"
    "KIN|KOM|K96|A0|B0|DR|DTH|ORBWAVE.*"
)
"""Entries of a binary's orbit, not all of which every model has."""
POSITION = re.compile("RAJD?|DECJD?|ELONG|ELAT|PMRA|PMDEC|PMELONG|PMELAT|ECL")
TEXTS = re.compile(
    "NAME|BNAME|BINARY|EPHEM|UNITS|EPHVER|ECL|RAJ|DECJ|SINI|K96|CLK|CLOCK|CLK_CORR_CHAIN|EOP_FILE|T2CMETHOD|TIMEEPH|"
    "DILATEFREQ|DIALATEFREQ|CORRECT_TROPOSPHERE|PLANET_SHAPIRO2?|NO_SS_SHAPIRO|OBSERVATORY|TZR(SITE|FRQ|FREQ|MJD)?|"
    "DMDATA|DM_SERIES|DMMODEL|FDJUMPLOG|TDSW\\w+|TN\\w+FLOG|WHITE_NOISE_MODEL|DCOVFILE|TRANSIENTWINDOWTYPE|HEAD|AVERAGERES"
)
"""Entries whose words are not numbers, or need not be."""
FLAGS = {"1": True, "Y": True, "YES": True, "TRUE": True, "0": False, "N": False, "NO": False, "FALSE": False}
"""Words for yes and no."""
LIST = re.compile(
    "_DM|_NE_SW|DMOFF|DMVAL.*|TOFFSET|CONSTRAIN|SIMULATE|AVERAGERES|INFO|ASSOC|TYPE|O?SURVEY|DATE|WAVDM\\d+|"
    "TN(BAND|GROUP|SHAPELET|DME)\\w*|CREATOR|HEAD|VERSION"
)
"""Entries that leave the phase alone and may have many values."""
MAY_BE_NONE = re.compile("TRANSIENTWINDOWTYPE")
"""Entries of which none is a value."""
SELECTION = re.compile("-[a-z].*|mjd|freq|tel|name", re.IGNORECASE)
"""Words that begin a choice of arrival times, as after JUMP."""
PAIRS = re.compile(r"WAVE\d+")
"""Entries with two values."""
LIMITS = {
    "F0|FB0": (0, 1e4, "Hz"),
    r"F\d+|FB\d+|GLF\d(D\d?)?_\d+": (-1, 1, "Hz/s^k"),
    "P0": (1e-4, 1e6, "s"),
    "P1": (-1e6, 1e6, "s/s, or in units of 1e-15"),
    "PB": (1e-4, 1e6, "days"),
    "A1": (0, 1e6, "light-seconds"),
    "ECC": (0, 1, "without unit"),
    "EPS[12]|DR|DTH": (-1, 1, "without unit"),
    "SINI": (0, 1, "the sine of the inclination"),
    "STIG": (0, 1, "without unit"),
    "H[34]|A0|B0|GAMMA": (-1, 1, "s"),
    "M2": (0, 1e3, "solar masses"),
    "SHAPMAX": (0, 1e3, "without unit"),
    "KIN": (0, 180, "degrees"),
    "RAJD|ELONG|OM|KOM": (-360, 360, "degrees"),
    "DECJD|ELAT": (-90, 90, "degrees"),
    "LNEDOT": (-1e3, 1e3, "1/year"),
    "OMDOT": (-1e4, 1e4, "degrees a year"),
    "PM.*": (-1e5, 1e5, "mas a year"),
    "PX": (-1e5, 1e5, "mas"),
    "DIST": (0, 1e6, "kpc"),
    r"GLTD\d?_\d+": (0, 1e6, "days"),
    r"GLPH_\d+": (-1e6, 1e6, "cycles"),
    r"ORBWAVE[CS]\d+": (-1e6, 1e6, "orbits"),
    "ORBWAVE_OM": (-1, 1, "rad/s"),
    r"CHROMGAUSS_LOGAMP_\d+": (-100, 3, "log10 of s"),
    "NHARMS": (0, 100, "a number of harmonics"),
}
"""Smallest and largest value of entries, and their unit, by a pattern of names; others are within 1e6."""
OTHERS = (-1e6, 1e6, "the unit of TEMPO2")


def usual(name: str) -> str:
    """Return the usual name of an entry: ``A1DOT`` and ``xdot`` are XDOT, ``GLF0_01`` is GLF0_1."""
    name = name.strip().upper()
    stem, bar, number = name.rpartition("_")
    if bar and number.isascii() and number.isdigit():
        return f"{ALIASES.get(stem, stem)}_{number.lstrip('0') or 0}" if not SECOND.fullmatch(name) else name
    return ALIASES.get(name, name)


def limits(name: str) -> tuple[float, float, str]:
    """Return the smallest and largest value of an entry, and its unit."""
    return next((bounds for pattern, bounds in LIMITS.items() if re.fullmatch(pattern, name)), OTHERS)
