"""The Python API, which `import ragweir` offers: scores, frames, explanations and comparisons."""
