"""The reference mathematics of the course: what every exercise's answer is held against.

A module a notebook, each function named and shaped as in the notebook:

===================== ======================================================================
`residual_stream`     00: the stream as a sum, virtual weights, rotations
`zero_layer`          01: bigrams, losses, and a model without layers
`attention_heads`     02: scores, patterns, the QK and OV circuits of a head
`one_layer`           03: skip-trigrams and their bugs, copying
`composition`         04: heads reading heads
`induction_heads`     05: recognising induction; `induction_by_hand` writes it into weights,
                      `induction_training` watches it appear
`path_importance`     06: which paths carry the loss, in nats
`beyond`              07: MLPs, LayerNorm, value biases, other people's models
`compiled`            08: whole transformers with known circuits, from the declared heads of
                      `compiled_heads`, `compiled_parts` and `compiled_weights`;
                      `mystery` draws some and proves them, `naming` reads them from outside
===================== ======================================================================

Three modules serve the others: `paths` (a model as a sum over paths, at any depth), `low_rank`
(products kept as factors), `shapes` (the checks that name a wrong argument).

Row vectors, weights on the right; `grader.transformer` states the conventions.
"""
