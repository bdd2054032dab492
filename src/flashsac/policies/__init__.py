"""Trained policies: files, evaluation, video, export."""
