"""jfstat: the F-statistic for continuous gravitational waves in JAX.

Modules are imported when a name is first used: `jfstat --version` need not wait for JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jfstat.version import __version__ as __version__

if TYPE_CHECKING:
    from jfstat.banks.braking import Braking
    from jfstat.banks.lattice_bank import lattice_bank, lattice_size
    from jfstat.banks.remnants import remnant_bank
    from jfstat.banks.template_bank import bank_size, template_bank
    from jfstat.candidates.details import Details
    from jfstat.candidates.lineflags import flag_lines
    from jfstat.candidates.lineveto import line_veto
    from jfstat.candidates.tables import bank_from_table
    from jfstat.candidates.templatetable import template_table
    from jfstat.compilecache import use_compile_cache
    from jfstat.data.addsignal import add_signal, noise_like
    from jfstat.data.fstatdata import FstatData
    from jfstat.data.moving import move_detectors
    from jfstat.data.narrow import NarrowSizes, narrow, narrow_sizes
    from jfstat.data.narrowdata import NarrowData, covers
    from jfstat.data.narrowfiles import narrow_files
    from jfstat.data.noise import Noise
    from jfstat.data.normalised import NormalisedSFTs, normalise
    from jfstat.data.observation import Observation, observation
    from jfstat.data.prepare import prepare
    from jfstat.data.psd import psd, spectrogram
    from jfstat.data.segments import segment_observations
    from jfstat.data.slicesizes import AtomSizes, atom_sizes
    from jfstat.data.stretches import leave_out
    from jfstat.engines.band import twoF_band
    from jfstat.exporting import enable_export
    from jfstat.followup.distinct import distinct
    from jfstat.followup.fromfiles import (
        follow_up_files,
        fstat_table_files,
        refine_files,
        write_atoms_files,
        write_transient_maps_files,
    )
    from jfstat.followup.fstattable import fstat_table
    from jfstat.followup.ladder import follow_up, last_stage
    from jfstat.followup.options import Fit, Stages
    from jfstat.followup.posterior import log_posterior
    from jfstat.followup.refine import refine
    from jfstat.followup.stages import follow_up_stages
    from jfstat.followup.windowfile import write_transient_maps
    from jfstat.geometry.detector import Detector
    from jfstat.geometry.ephemeris import Ephemeris
    from jfstat.geometry.polarisations import antenna_patterns
    from jfstat.inference.amplitudeposterior import AmplitudePosterior, amplitude_posterior
    from jfstat.inference.amplitudeprior import AmplitudePrior
    from jfstat.inference.bilby import to_bilby
    from jfstat.inference.bstat import log_bstat
    from jfstat.inference.density import PosteriorDensity
    from jfstat.inference.distributions import Cosine, Exponential, FermiDirac, HalfNormal, LogUniform, Normal, Uniform
    from jfstat.inference.dualharmonic import DualHarmonicAmplitude, DualHarmonicPrior
    from jfstat.inference.dualposterior import DualHarmonicPosterior, dual_harmonic_posterior
    from jfstat.inference.model import Model, model
    from jfstat.inference.neutronstars import ellipticity, spin_down_limit
    from jfstat.inference.polarisations import log_polarisation_bstat, polarisation_table
    from jfstat.inference.population import EllipticityLikelihoods, ellipticity_likelihoods
    from jfstat.inference.pulsarposteriors import PulsarPosteriors, pulsar_posteriors
    from jfstat.io.candidates import read_candidates, write_candidates
    from jfstat.io.lal.atoms import read_atoms, write_atoms
    from jfstat.io.lal.loudest import write_loudest
    from jfstat.io.lal.psd import write_psd
    from jfstat.io.lal.times import read_segments, read_timestamps
    from jfstat.io.lal.transients import write_transient_stats
    from jfstat.io.saved import load, save
    from jfstat.io.templates import read_templates, write_templates
    from jfstat.limits.analytic import detection_probability, sensitivity, sensitivity_depth
    from jfstat.limits.injections import UpperLimit, upper_limit
    from jfstat.limits.population import Population
    from jfstat.limits.transients import TransientUpperLimit, transient_upper_limit
    from jfstat.lines.cleaning import clean
    from jfstat.lines.reading import read_lines
    from jfstat.metrics.coordinates import Coordinates, whiten
    from jfstat.metrics.metric import metric
    from jfstat.metrics.mismatch import mismatch
    from jfstat.pulsars.hardware import hardware_injections
    from jfstat.pulsars.pulsar import Pulsar
    from jfstat.pulsars.reading import read_par, read_pulsars
    from jfstat.pulsars.timingerrors import TimingErrors, timing_errors
    from jfstat.searching.background import background, background_positions
    from jfstat.searching.empirical import empirical_false_alarm, empirical_thresholds
    from jfstat.searching.hardware import check_hardware_injections
    from jfstat.searching.hardwarestrain import hardware_injection_sfts
    from jfstat.searching.joined import join_searches
    from jfstat.searching.knownpulsars import PulsarBand
    from jfstat.searching.options import Keep, Run
    from jfstat.searching.plan import SearchPlan, plan_search
    from jfstat.searching.pulsars import search_pulsars
    from jfstat.searching.search import search
    from jfstat.searching.session.stop import SearchStopped
    from jfstat.searching.session.units import merge
    from jfstat.searching.setups import search_setups
    from jfstat.searching.single import search_template
    from jfstat.searching.statistics.bestpath import BestPath
    from jfstat.searching.statistics.bsgl import BSGL
    from jfstat.searching.statistics.bsgltl import BSGLtL
    from jfstat.searching.statistics.coherent import TwoF
    from jfstat.searching.statistics.interpolated import Interpolated
    from jfstat.searching.statistics.mean import MeanTwoF
    from jfstat.searching.statistics.trackpower import TrackPower
    from jfstat.searching.statistics.transient import Transient
    from jfstat.searching.summary import summary
    from jfstat.searching.trackpower import track_power
    from jfstat.sfts import SFTs, join_sfts, read_sfts, write_sfts
    from jfstat.sfts.dump import dump_sfts
    from jfstat.sfts.naming import public_description
    from jfstat.sfts.reading import SFTFiles, find_sfts
    from jfstat.sfts.sfdb import read_sfdb
    from jfstat.sfts.split import split_sfts
    from jfstat.sfts.validate import validate_sfts
    from jfstat.signal.phasemodel import PhaseModel
    from jfstat.signal.piecewise import braking_evolution, piecewise_model
    from jfstat.signal.templates import Amplitude, Doppler, Orbit
    from jfstat.signal.times import GPSTime
    from jfstat.signal.transientwindow import TransientWindow
    from jfstat.simulate.artefacts import inject_artefacts
    from jfstat.simulate.floors import BroadLine, FloorDrift
    from jfstat.simulate.glitches import Glitches
    from jfstat.simulate.lines import Artefact, WanderingLine, comb
    from jfstat.simulate.simulate import inject, simulate_sfts
    from jfstat.statistic.atoms import Atoms, atoms
    from jfstat.statistic.dmoff import dm_off_twoF
    from jfstat.statistic.fstat import (
        AmplitudeEstimate,
        Fstat,
        estimate_amplitude,
        fstat,
        predict_twoF,
        resample,
        twoF,
    )
    from jfstat.statistic.likelihood import log_likelihood
    from jfstat.statistic.linerobust import LinePrior
    from jfstat.statistic.noiseenergy import NoiseEnergy, noise_energy
    from jfstat.statistic.null import NullDistribution
    from jfstat.statistic.polarisations import PolarisationFstat, polarisation_fstat
    from jfstat.statistic.semicoherent import (
        SemicoherentAmplitude,
        SemicoherentFstat,
        mean_twoF,
        semicoherent_amplitude,
        semicoherent_fstat,
        sum_twoF,
    )
    from jfstat.statistic.trackpower import NormalisedPower
    from jfstat.statistic.transientnull import transient_null
    from jfstat.statistic.transients import TransientMap, TransientRange, transient_map, transient_twoF
    from jfstat.statistic.windowed import windowed
    from jfstat.strain.files import DataQuality, each_sft, find_strain, read_frame_cache, sfts_from_frames
    from jfstat.strain.gating import Gating
    from jfstat.strain.making import Conditioning
    from jfstat.strain.series import sfts_from_strain
    from jfstat.strain.writing import write_frames
    from jfstat.tracking.emission import log_likelihood_by_segment, twoF_by_segment
    from jfstat.tracking.limits import PathUpperLimit, path_upper_limit
    from jfstat.tracking.null import viterbi_null
    from jfstat.tracking.track import Track, track
    from jfstat.tracking.viterbi import PathPosterior, ViterbiPath, forward_backward, viterbi

__all__ = [
    "BSGL",
    "Amplitude",
    "AmplitudeEstimate",
    "AmplitudePosterior",
    "AmplitudePrior",
    "Artefact",
    "AtomSizes",
    "Atoms",
    "BSGLtL",
    "BestPath",
    "Braking",
    "BroadLine",
    "Conditioning",
    "Coordinates",
    "Cosine",
    "DataQuality",
    "Details",
    "Detector",
    "Doppler",
    "DualHarmonicAmplitude",
    "DualHarmonicPosterior",
    "DualHarmonicPrior",
    "EllipticityLikelihoods",
    "Ephemeris",
    "Exponential",
    "FermiDirac",
    "Fit",
    "FloorDrift",
    "Fstat",
    "FstatData",
    "GPSTime",
    "Gating",
    "Glitches",
    "HalfNormal",
    "Interpolated",
    "Keep",
    "LinePrior",
    "LogUniform",
    "MeanTwoF",
    "Model",
    "NarrowData",
    "NarrowSizes",
    "Noise",
    "NoiseEnergy",
    "Normal",
    "NormalisedPower",
    "NormalisedSFTs",
    "NullDistribution",
    "Observation",
    "Orbit",
    "PathPosterior",
    "PathUpperLimit",
    "PhaseModel",
    "PolarisationFstat",
    "Population",
    "PosteriorDensity",
    "Pulsar",
    "PulsarBand",
    "PulsarPosteriors",
    "Run",
    "SFTFiles",
    "SFTs",
    "SearchPlan",
    "SearchStopped",
    "SemicoherentAmplitude",
    "SemicoherentFstat",
    "Stages",
    "TimingErrors",
    "Track",
    "TrackPower",
    "Transient",
    "TransientMap",
    "TransientRange",
    "TransientUpperLimit",
    "TransientWindow",
    "TwoF",
    "Uniform",
    "UpperLimit",
    "ViterbiPath",
    "WanderingLine",
    "add_signal",
    "amplitude_posterior",
    "antenna_patterns",
    "atom_sizes",
    "atoms",
    "background",
    "background_positions",
    "bank_from_table",
    "bank_size",
    "braking_evolution",
    "check_hardware_injections",
    "clean",
    "comb",
    "covers",
    "detection_probability",
    "distinct",
    "dm_off_twoF",
    "dual_harmonic_posterior",
    "dump_sfts",
    "each_sft",
    "ellipticity",
    "ellipticity_likelihoods",
    "empirical_false_alarm",
    "empirical_thresholds",
    "enable_export",
    "estimate_amplitude",
    "find_sfts",
    "find_strain",
    "flag_lines",
    "follow_up",
    "follow_up_files",
    "follow_up_stages",
    "forward_backward",
    "fstat",
    "fstat_table",
    "fstat_table_files",
    "hardware_injection_sfts",
    "hardware_injections",
    "inject",
    "inject_artefacts",
    "join_searches",
    "join_sfts",
    "last_stage",
    "lattice_bank",
    "lattice_size",
    "leave_out",
    "line_veto",
    "load",
    "log_bstat",
    "log_likelihood",
    "log_likelihood_by_segment",
    "log_polarisation_bstat",
    "log_posterior",
    "mean_twoF",
    "merge",
    "metric",
    "mismatch",
    "model",
    "move_detectors",
    "narrow",
    "narrow_files",
    "narrow_sizes",
    "noise_energy",
    "noise_like",
    "normalise",
    "observation",
    "path_upper_limit",
    "piecewise_model",
    "plan_search",
    "polarisation_fstat",
    "polarisation_table",
    "predict_twoF",
    "prepare",
    "psd",
    "public_description",
    "pulsar_posteriors",
    "read_atoms",
    "read_candidates",
    "read_frame_cache",
    "read_lines",
    "read_par",
    "read_pulsars",
    "read_segments",
    "read_sfdb",
    "read_sfts",
    "read_templates",
    "read_timestamps",
    "refine",
    "refine_files",
    "remnant_bank",
    "resample",
    "save",
    "search",
    "search_pulsars",
    "search_setups",
    "search_template",
    "segment_observations",
    "semicoherent_amplitude",
    "semicoherent_fstat",
    "sensitivity",
    "sensitivity_depth",
    "sfts_from_frames",
    "sfts_from_strain",
    "simulate_sfts",
    "spectrogram",
    "spin_down_limit",
    "split_sfts",
    "sum_twoF",
    "summary",
    "template_bank",
    "template_table",
    "timing_errors",
    "to_bilby",
    "track",
    "track_power",
    "transient_map",
    "transient_null",
    "transient_twoF",
    "transient_upper_limit",
    "twoF",
    "twoF_band",
    "twoF_by_segment",
    "upper_limit",
    "use_compile_cache",
    "validate_sfts",
    "viterbi",
    "viterbi_null",
    "whiten",
    "windowed",
    "write_atoms",
    "write_atoms_files",
    "write_candidates",
    "write_frames",
    "write_loudest",
    "write_psd",
    "write_sfts",
    "write_templates",
    "write_transient_maps",
    "write_transient_maps_files",
    "write_transient_stats",
]

_HOMES = {
    "BSGL": "jfstat.searching.statistics.bsgl",
    "Amplitude": "jfstat.signal.templates",
    "AmplitudeEstimate": "jfstat.statistic.fstat",
    "AmplitudePosterior": "jfstat.inference.amplitudeposterior",
    "AmplitudePrior": "jfstat.inference.amplitudeprior",
    "Artefact": "jfstat.simulate.lines",
    "AtomSizes": "jfstat.data.slicesizes",
    "Atoms": "jfstat.statistic.atoms",
    "BSGLtL": "jfstat.searching.statistics.bsgltl",
    "BestPath": "jfstat.searching.statistics.bestpath",
    "Braking": "jfstat.banks.braking",
    "BroadLine": "jfstat.simulate.floors",
    "Conditioning": "jfstat.strain.making",
    "Coordinates": "jfstat.metrics.coordinates",
    "Cosine": "jfstat.inference.distributions",
    "DataQuality": "jfstat.strain.files",
    "Details": "jfstat.candidates.details",
    "Detector": "jfstat.geometry.detector",
    "Doppler": "jfstat.signal.templates",
    "DualHarmonicAmplitude": "jfstat.inference.dualharmonic",
    "DualHarmonicPosterior": "jfstat.inference.dualposterior",
    "DualHarmonicPrior": "jfstat.inference.dualharmonic",
    "EllipticityLikelihoods": "jfstat.inference.population",
    "Ephemeris": "jfstat.geometry.ephemeris",
    "Exponential": "jfstat.inference.distributions",
    "FermiDirac": "jfstat.inference.distributions",
    "Fit": "jfstat.followup.options",
    "FloorDrift": "jfstat.simulate.floors",
    "Fstat": "jfstat.statistic.fstat",
    "FstatData": "jfstat.data.fstatdata",
    "GPSTime": "jfstat.signal.times",
    "Gating": "jfstat.strain.gating",
    "Glitches": "jfstat.simulate.glitches",
    "HalfNormal": "jfstat.inference.distributions",
    "Interpolated": "jfstat.searching.statistics.interpolated",
    "Keep": "jfstat.searching.options",
    "LinePrior": "jfstat.statistic.linerobust",
    "LogUniform": "jfstat.inference.distributions",
    "MeanTwoF": "jfstat.searching.statistics.mean",
    "Model": "jfstat.inference.model",
    "NarrowData": "jfstat.data.narrowdata",
    "NarrowSizes": "jfstat.data.narrow",
    "Noise": "jfstat.data.noise",
    "NoiseEnergy": "jfstat.statistic.noiseenergy",
    "Normal": "jfstat.inference.distributions",
    "NormalisedPower": "jfstat.statistic.trackpower",
    "NormalisedSFTs": "jfstat.data.normalised",
    "NullDistribution": "jfstat.statistic.null",
    "Observation": "jfstat.data.observation",
    "Orbit": "jfstat.signal.templates",
    "PathPosterior": "jfstat.tracking.viterbi",
    "PathUpperLimit": "jfstat.tracking.limits",
    "PhaseModel": "jfstat.signal.phasemodel",
    "PolarisationFstat": "jfstat.statistic.polarisations",
    "Population": "jfstat.limits.population",
    "PosteriorDensity": "jfstat.inference.density",
    "Pulsar": "jfstat.pulsars.pulsar",
    "PulsarBand": "jfstat.searching.knownpulsars",
    "PulsarPosteriors": "jfstat.inference.pulsarposteriors",
    "Run": "jfstat.searching.options",
    "SFTFiles": "jfstat.sfts.reading",
    "SFTs": "jfstat.sfts",
    "SearchPlan": "jfstat.searching.plan",
    "SearchStopped": "jfstat.searching.session.stop",
    "SemicoherentAmplitude": "jfstat.statistic.semicoherent",
    "SemicoherentFstat": "jfstat.statistic.semicoherent",
    "Stages": "jfstat.followup.options",
    "TimingErrors": "jfstat.pulsars.timingerrors",
    "Track": "jfstat.tracking.track",
    "TrackPower": "jfstat.searching.statistics.trackpower",
    "Transient": "jfstat.searching.statistics.transient",
    "TransientMap": "jfstat.statistic.transients",
    "TransientRange": "jfstat.statistic.transients",
    "TransientUpperLimit": "jfstat.limits.transients",
    "TransientWindow": "jfstat.signal.transientwindow",
    "TwoF": "jfstat.searching.statistics.coherent",
    "Uniform": "jfstat.inference.distributions",
    "UpperLimit": "jfstat.limits.injections",
    "ViterbiPath": "jfstat.tracking.viterbi",
    "WanderingLine": "jfstat.simulate.lines",
    "add_signal": "jfstat.data.addsignal",
    "amplitude_posterior": "jfstat.inference.amplitudeposterior",
    "antenna_patterns": "jfstat.geometry.polarisations",
    "atom_sizes": "jfstat.data.slicesizes",
    "atoms": "jfstat.statistic.atoms",
    "background": "jfstat.searching.background",
    "background_positions": "jfstat.searching.background",
    "bank_from_table": "jfstat.candidates.tables",
    "bank_size": "jfstat.banks.template_bank",
    "braking_evolution": "jfstat.signal.piecewise",
    "check_hardware_injections": "jfstat.searching.hardware",
    "clean": "jfstat.lines.cleaning",
    "comb": "jfstat.simulate.lines",
    "covers": "jfstat.data.narrowdata",
    "detection_probability": "jfstat.limits.analytic",
    "distinct": "jfstat.followup.distinct",
    "dm_off_twoF": "jfstat.statistic.dmoff",
    "dual_harmonic_posterior": "jfstat.inference.dualposterior",
    "dump_sfts": "jfstat.sfts.dump",
    "each_sft": "jfstat.strain.files",
    "ellipticity": "jfstat.inference.neutronstars",
    "ellipticity_likelihoods": "jfstat.inference.population",
    "empirical_false_alarm": "jfstat.searching.empirical",
    "empirical_thresholds": "jfstat.searching.empirical",
    "enable_export": "jfstat.exporting",
    "estimate_amplitude": "jfstat.statistic.fstat",
    "find_sfts": "jfstat.sfts.reading",
    "find_strain": "jfstat.strain.files",
    "flag_lines": "jfstat.candidates.lineflags",
    "follow_up": "jfstat.followup.ladder",
    "follow_up_files": "jfstat.followup.fromfiles",
    "follow_up_stages": "jfstat.followup.stages",
    "forward_backward": "jfstat.tracking.viterbi",
    "fstat": "jfstat.statistic.fstat",
    "fstat_table": "jfstat.followup.fstattable",
    "fstat_table_files": "jfstat.followup.fromfiles",
    "hardware_injection_sfts": "jfstat.searching.hardwarestrain",
    "hardware_injections": "jfstat.pulsars.hardware",
    "inject": "jfstat.simulate.simulate",
    "inject_artefacts": "jfstat.simulate.artefacts",
    "join_searches": "jfstat.searching.joined",
    "join_sfts": "jfstat.sfts",
    "last_stage": "jfstat.followup.ladder",
    "lattice_bank": "jfstat.banks.lattice_bank",
    "lattice_size": "jfstat.banks.lattice_bank",
    "leave_out": "jfstat.data.stretches",
    "line_veto": "jfstat.candidates.lineveto",
    "load": "jfstat.io.saved",
    "log_bstat": "jfstat.inference.bstat",
    "log_likelihood": "jfstat.statistic.likelihood",
    "log_likelihood_by_segment": "jfstat.tracking.emission",
    "log_polarisation_bstat": "jfstat.inference.polarisations",
    "log_posterior": "jfstat.followup.posterior",
    "mean_twoF": "jfstat.statistic.semicoherent",
    "merge": "jfstat.searching.session.units",
    "metric": "jfstat.metrics.metric",
    "mismatch": "jfstat.metrics.mismatch",
    "model": "jfstat.inference.model",
    "move_detectors": "jfstat.data.moving",
    "narrow": "jfstat.data.narrow",
    "narrow_files": "jfstat.data.narrowfiles",
    "narrow_sizes": "jfstat.data.narrow",
    "noise_energy": "jfstat.statistic.noiseenergy",
    "noise_like": "jfstat.data.addsignal",
    "normalise": "jfstat.data.normalised",
    "observation": "jfstat.data.observation",
    "path_upper_limit": "jfstat.tracking.limits",
    "piecewise_model": "jfstat.signal.piecewise",
    "plan_search": "jfstat.searching.plan",
    "polarisation_fstat": "jfstat.statistic.polarisations",
    "polarisation_table": "jfstat.inference.polarisations",
    "predict_twoF": "jfstat.statistic.fstat",
    "prepare": "jfstat.data.prepare",
    "psd": "jfstat.data.psd",
    "public_description": "jfstat.sfts.naming",
    "pulsar_posteriors": "jfstat.inference.pulsarposteriors",
    "read_atoms": "jfstat.io.lal.atoms",
    "read_candidates": "jfstat.io.candidates",
    "read_frame_cache": "jfstat.strain.files",
    "read_lines": "jfstat.lines.reading",
    "read_par": "jfstat.pulsars.reading",
    "read_pulsars": "jfstat.pulsars.reading",
    "read_segments": "jfstat.io.lal.times",
    "read_sfdb": "jfstat.sfts.sfdb",
    "read_sfts": "jfstat.sfts",
    "read_templates": "jfstat.io.templates",
    "read_timestamps": "jfstat.io.lal.times",
    "refine": "jfstat.followup.refine",
    "refine_files": "jfstat.followup.fromfiles",
    "remnant_bank": "jfstat.banks.remnants",
    "resample": "jfstat.statistic.fstat",
    "save": "jfstat.io.saved",
    "search": "jfstat.searching.search",
    "search_pulsars": "jfstat.searching.pulsars",
    "search_setups": "jfstat.searching.setups",
    "search_template": "jfstat.searching.single",
    "segment_observations": "jfstat.data.segments",
    "semicoherent_amplitude": "jfstat.statistic.semicoherent",
    "semicoherent_fstat": "jfstat.statistic.semicoherent",
    "sensitivity": "jfstat.limits.analytic",
    "sensitivity_depth": "jfstat.limits.analytic",
    "sfts_from_frames": "jfstat.strain.files",
    "sfts_from_strain": "jfstat.strain.series",
    "simulate_sfts": "jfstat.simulate.simulate",
    "spectrogram": "jfstat.data.psd",
    "spin_down_limit": "jfstat.inference.neutronstars",
    "split_sfts": "jfstat.sfts.split",
    "sum_twoF": "jfstat.statistic.semicoherent",
    "summary": "jfstat.searching.summary",
    "template_bank": "jfstat.banks.template_bank",
    "template_table": "jfstat.candidates.templatetable",
    "timing_errors": "jfstat.pulsars.timingerrors",
    "to_bilby": "jfstat.inference.bilby",
    "track": "jfstat.tracking.track",
    "track_power": "jfstat.searching.trackpower",
    "transient_map": "jfstat.statistic.transients",
    "transient_null": "jfstat.statistic.transientnull",
    "transient_twoF": "jfstat.statistic.transients",
    "transient_upper_limit": "jfstat.limits.transients",
    "twoF": "jfstat.statistic.fstat",
    "twoF_band": "jfstat.engines.band",
    "twoF_by_segment": "jfstat.tracking.emission",
    "upper_limit": "jfstat.limits.injections",
    "use_compile_cache": "jfstat.compilecache",
    "validate_sfts": "jfstat.sfts.validate",
    "viterbi": "jfstat.tracking.viterbi",
    "viterbi_null": "jfstat.tracking.null",
    "whiten": "jfstat.metrics.coordinates",
    "windowed": "jfstat.statistic.windowed",
    "write_atoms": "jfstat.io.lal.atoms",
    "write_atoms_files": "jfstat.followup.fromfiles",
    "write_candidates": "jfstat.io.candidates",
    "write_frames": "jfstat.strain.writing",
    "write_loudest": "jfstat.io.lal.loudest",
    "write_psd": "jfstat.io.lal.psd",
    "write_sfts": "jfstat.sfts",
    "write_templates": "jfstat.io.templates",
    "write_transient_maps": "jfstat.followup.windowfile",
    "write_transient_maps_files": "jfstat.followup.fromfiles",
    "write_transient_stats": "jfstat.io.lal.transients",
}
"""The module of each public name."""
_PACKAGES = ("benchmarking", "plots", "sfts")
"""Public modules that users reach as ``jfstat.<name>``."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _PACKAGES:
        value = import_module(f"jfstat.{name}")
    else:
        raise AttributeError(f"module 'jfstat' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
