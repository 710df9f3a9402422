"""How every shipped model was made, so that anybody can make it again.

``corpus`` builds the text and the tokenizers, ``training`` holds the loop all recipes share, ``live``
trains in front of a learner, and ``train`` remakes a shipped model by its name.
"""
