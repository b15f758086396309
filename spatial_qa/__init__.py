"""Templates, options, checks, certificates, human review, export, scoring."""
