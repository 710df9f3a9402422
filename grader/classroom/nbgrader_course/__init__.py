"""The course inside nbgrader: a class's folder, safe autograding, late days, each learner's own models.

Nothing here is active by itself: a class's own ``nbgrader_config.py`` names what it uses.
"""
