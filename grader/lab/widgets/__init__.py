"""The widgets: each a computation, a live view in HTML, and a picture for readers without a kernel.

================  ==============================================================================
``widget_*``      the frame that all share: controls, messages, HTML, SVG, what may be typed
``*_widget``      one widget: its controls and what they redraw
``*_picture``     the same as a matplotlib figure (``composition_drawing`` draws both)
the others        what is computed, as plain functions over ``grader.circuits``
================  ==============================================================================
"""
