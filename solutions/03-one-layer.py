# %% [markdown]
# # 03 · One layer: bigrams, and skip-trigrams
#
# You now have all the parts: a stream that only adds (notebook 00), a direct path that is a table of
# bigrams (01), and heads that look and copy (02). This notebook puts one layer of heads on top of the
# direct path and asks: **what does such a model know?** It turns out that you can read most of it off
# the weights, token by token, without running the model.
#
# **After this notebook you can**
#
# - write a one-layer model as a sum of paths, and say what has to be frozen for that;
# - read each head as two tables of tokens, and the two together as *skip-trigrams*;
# - explain a mistake that such a model cannot avoid, and find it in a trained one;
# - test whether a head copies, by two tests, and say what each of them misses;
# - work with matrices of 50,257 by 50,257 entries without ever forming one;
# - say why "one layer = skip-trigrams" is not the whole truth.
#
# **Time:** about four hours, in pieces if you like. **It builds on**
# [01 · zero layers](../01-zero-layer/01-zero-layer.ipynb) and
# [02 · attention heads](../02-attention-heads/02-attention-heads.ipynb). In the
# [paper](https://transformer-circuits.pub/2021/framework/index.html) you are in "One-Layer Attention-Only
# Transformers" and in the appendix on low-rank matrices.
#
# As before: `check(name)` judges, `hint(name)` helps one step at a time, `solution(name)` opens once you
# have passed.

# %%
import torch

from grader import check, hint, lab, models, progress, solution
from grader.lab import pictures
from grader.models.recipes import skip_trigrams

# %% [markdown]
# ## 1 · Freeze the pattern
#
# A one-layer model does three things. It embeds the tokens, every head adds its term to the stream, and
# the unembedding reads logits off the result. With $x$ for the embedded tokens, one row a position:
#
# $$ \text{logits} = \Big(x + \sum_h A^h\, x\, W_V^h W_O^h\Big)\, W_U $$
#
# Only one thing in this line is not linear: the pattern $A^h$ is itself made from $x$, through a softmax.
# So the trick of notebook 02 again: run the model once, write the patterns down, and **freeze** them. What
# is left is linear in $x$. It can be taken apart like any sum.

# %% demo
pictures.stream_diagram(
    [[f"head 0.{h}" for h in range(4)]],
    title="One layer: everything reads the embedding, all of it adds",
)

# %% [markdown]
# ### Exercise: Logits with the attention given
#
# *10 minutes · difficulty 1 of 3 · 2 points*
#
# The pattern comes in from outside. It may be the model's own or any other; the check uses patterns that
# the model would never make. Compute the logits with these patterns, the direct path included. Remember
# that a model's weights carry a layer axis in front, also when there is one layer: `model.W_V[0, 2]`
# belongs to head 2 of layer 0. Positions have done their work when the pattern is known.


# %% answer
def frozen_logits(tokens, model, pattern):
    """The logits of a one-layer model with its attention replaced by a given one.

    tokens (pos,), model with one layer, pattern (head, dst, src) → (pos, d_vocab)
    """
    ### BEGIN SOLUTION
    x = model.W_E[tokens]
    stream = x
    for A, W_V, W_O in zip(pattern, model.W_V[0], model.W_O[0], strict=True):
        stream = stream + A @ x @ W_V @ W_O  # every head reads x, none reads another head
    return stream @ model.W_U
    ### END SOLUTION


# %% check
check(frozen_logits)

# %% [markdown]
# **What you showed.** With the attention given, no query and no key is needed any more. The two sides of
# a head are separate even in your code.

# %% [markdown]
# ## 2 · The path expansion
#
# Multiply the bracket out. Every way from a token to a logit becomes a term of its own, and the terms add:
#
# $$ \text{logits} = \underbrace{x\, W_U}_{\text{direct path}} \;+\; \sum_h \underbrace{A^h\, x\, W_V^h W_O^h W_U}_{\text{head } h} $$
#
# With 12 heads, as in the paper's first model, that is 13 terms. Each is simple: the direct path is the
# bigram table of notebook 01, and a head's term is attention times a table. The paper writes the same as
# $T = \mathrm{Id} \otimes W_U W_E + \sum_h A^h \otimes (W_U W_{OV}^h W_E)$, for columns.
#
# ### Exercise: A one-layer model is a sum of paths
#
# *12 minutes · difficulty 2 of 3 · 3 points*
#
# Run the model, keep its patterns, and return all terms by themselves: the direct path first, then the
# heads in order. `model.run_with_cache(tokens)` gives logits and a cache; `cache.pattern[0]` is
# (head, dst, src). Test it yourself before you check: the terms must add up to `model(tokens)`.


# %% answer
def one_layer_paths(tokens, model):
    """The direct path and each head's term, which sum to the model's logits.

    tokens (pos,), model with one layer → (1 + head, pos, d_vocab)
    """
    ### BEGIN SOLUTION
    _, cache = model.run_with_cache(tokens)
    x = model.W_E[tokens]
    terms = [x @ model.W_U]
    for h, A in enumerate(cache.pattern[0]):
        table = model.W_V[0, h] @ model.W_O[0, h] @ model.W_U  # (d_model, d_vocab)
        terms.append(A @ (x @ table))
    return torch.stack(terms)
    ### END SOLUTION


# %% check
check(one_layer_paths)

# %% [markdown]
# **What you showed.** A one-layer model has no hidden steps. Whatever it says is said by the last token
# alone (direct path) or by one head that looked at something. Here are the paths of a *trained* model, the
# one-layer model that ships with this course, at one place of a short text. Each column is a candidate for
# the next token, each row a path.

# %%
model = models.load("one-layer")
text = "def update(self, name):\n    try:\n        return self.table[name]\n    except"
tokens = model.tokenizer.encode(text)
label = model.tokenizer.token_strings()  # id → text; · is a space, ⏎ a new line
print(model)
print(*(label[i] for i in tokens), sep=" | ")

# %% demo
logits, cache = model.run_with_cache(tokens)
here = len(tokens) - 2  # the place where the last token, `except` or its part, is predicted
x, terms = cache.stream[0], cache.head_out[0]
by_path = torch.cat([x[None], terms])[:, here] @ model.W_U
by_path = by_path - by_path.mean(dim=1, keepdim=True)  # only differences between tokens count
best = logits[here].topk(8).indices
pictures.matrix(
    by_path[:, best],
    rows=["direct path", *(f"head {h}" for h in range(model.n_heads))],
    columns=[label[i] for i in best],
    axes=("path", "candidate for the next token"),
    title=f"Who votes for what, after “{label[tokens[here]]}”",
    digits=1,
)

# %% [markdown]
# Each number is what one path adds to a candidate's logit, compared with the average token. Add a column
# up and you have the model's own logit (up to a constant that is the same for all candidates). *With the text
# as we gave it*, the direct path only knows that a line has begun, and many words can begin a line. One head
# votes for `except` and `finally` (whose first piece is `fin`): it has looked back and found the `try`. Change
# `text` above and run the picture again.

# %% [markdown]
# ## 3 · Two tables of tokens
#
# Look at one head's term again. What enters are tokens, and what leaves are logits of tokens. So write
# the whole way from token to token as one matrix. The same can be done for the scores, which compare a
# destination token with a source token:
#
# | table | formula | shape | rows | columns |
# |---|---|---|---|---|
# | full QK circuit | $W_E\, W_Q W_K^T\, W_E^T$ | (d_vocab, d_vocab) | destination token | source token |
# | full OV circuit | $W_E\, W_V W_O\, W_U$ | (d_vocab, d_vocab) | source token | output token |
#
# The first says how much a destination *likes* a source. The second says what the source *does* to the
# logits if it is looked at. In the paper's column convention the full QK circuit is the same table, and
# the full OV circuit, $W_U W_{OV} W_E$, is the transpose of ours.
#
# ### Exercise: The full QK circuit: who looks at whom
#
# *6 minutes · difficulty 1 of 3 · 2 points*
#
# Build the table for one head, destinations in the rows. It is a circuit, not a score: nothing is divided,
# and nothing is masked, because tokens of a vocabulary have no order. Positions stay out of it.


# %% answer
def full_qk_circuit(W_E, W_Q, W_K):
    """How much each destination token likes each source token, for one head; not divided.

    W_E (d_vocab, d_model), W_Q and W_K (d_model, d_head) → (d_vocab, d_vocab)
    """
    ### BEGIN SOLUTION
    queries, keys = W_E @ W_Q, W_E @ W_K  # one row a token of the vocabulary
    return torch.einsum("ah,bh->ab", queries, keys)
    ### END SOLUTION


# %% check
check(full_qk_circuit)

# %% [markdown]
# ### Exercise: The full OV circuit: what a look does
#
# *6 minutes · difficulty 1 of 3 · 2 points*
#
# Now the other table, sources in the rows, outputs in the columns. Entry $(s, o)$ is what a full look at
# the token $s$ adds to the logit of the token $o$. Mind the order; a row vector meets the weights from
# left to right.


# %% answer
def full_ov_circuit(W_E, W_V, W_O, W_U):
    """What a look at each source token adds to the logit of each output token, for one head.

    W_E (d_vocab, d_model), W_V (d_model, d_head), W_O (d_head, d_model), W_U (d_model, d_vocab)
    → (d_vocab, d_vocab)
    """
    ### BEGIN SOLUTION
    values = W_E @ W_V  # (d_vocab, d_head)
    return values @ (W_O @ W_U)
    ### END SOLUTION


# %% check
check(full_ov_circuit)

# %% [markdown]
# **What you showed.** A head is two tables. Put an entry of each together and you have a small story about
# three tokens:
#
# > **source** … **destination** → **output**
#
# Somewhere back stands the source; now the destination is read; so the output becomes likelier. The paper
# calls this a **skip-trigram**, because the three tokens need not be neighbors. Some that it names:
# `keep … in → mind`, `for … in → range`, `def … ( → self`, `lambda … $\ → lambda`. A zero-layer model sees
# only `in` and must guess. A one-layer model can remember that a `keep` came before.
#
# Here is a head that knows about `keep`, written by hand.

# %%
words = [" keep", " in", " at", " the", " mind", " bay"]
toy_qk, toy_ov = torch.zeros(2, 6, 6)
toy_qk[1, 0] = toy_qk[2, 0] = 6.0  # " in" and " at" like to look at " keep"
toy_ov[0, 4] = toy_ov[0, 5] = 4.0  # a look at " keep" raises " mind" and " bay"

# %% demo
pictures.matrices(
    {"full QK": toy_qk, "full OV": toy_ov},
    axes={"full QK": ("destination", "source"), "full OV": ("source", "output")},
    labels=words,
    digits=0,
)

# %% [markdown]
# ### Exercise: Read skip-trigrams off the tables
#
# *10 minutes · difficulty 1 of 3 · 2 points*
#
# Given both tables and a destination, list the sources it likes best, and for each of them the outputs it
# raises most. Ids, best first, by the raw entries; nothing is left out, also not the destination itself.
# The two results are judged separately.


# %% answer
def top_skip_trigrams(full_qk, full_ov, destination, n_sources, n_outputs):
    """The best sources of a destination, and the best outputs of each of them, as token ids.

    full_qk (d_vocab, d_vocab) is [destination, source], full_ov (d_vocab, d_vocab) is [source, output];
    destination is a token id, n_sources and n_outputs are numbers
    → tuple (n_sources,), (n_sources, n_outputs)
    """
    ### BEGIN SOLUTION
    sources = full_qk[destination].topk(n_sources).indices
    outputs = full_ov[sources].topk(n_outputs, dim=-1).indices
    return sources, outputs
    ### END SOLUTION


# %% check
check(top_skip_trigrams)

# %% [markdown]
# **What you showed.** The model can be read like a phrase book. Two warnings before you use it on a real
# model, both in the paper. First, rows of QK cannot be compared with each other: adding the same number to
# a whole row changes no attention at all, since a softmax only sees differences. Second, the largest
# entries of a table often belong to tokens that never meet in any text. Section 8 deals with that.

# %% [markdown]
# ## 4 · A bug that the model cannot avoid
#
# Look at the toy's tables once more. The designer wanted two phrases: `keep … in → mind` and
# `keep … at → bay`. The head also says `keep … in → bay` and `keep … at → mind`. Nobody asked for those,
# and no choice of numbers in these two tables gets rid of them.
#
# **The bug as algebra.** The effect of a source on an output, as seen from a destination, is a product
#
# $$ \text{effect}(\text{source}, \text{destination}, \text{output}) \;=\;
#    f_1(\text{source}, \text{destination}) \cdot f_2(\text{source}, \text{output}) $$
#
# The first factor is attention and comes from QK. The second is OV. The second does not know the
# destination. Fix the source, and let destinations be rows and outputs be columns: the table of effects is
# a column times a row. It has **rank one**. In a table of rank one, if two corners of a rectangle on a
# diagonal are positive, the other two are positive as well.
#
# **The bug in two lines.**

# %%
pays, gains = torch.tensor([[0.9], [0.8]]), torch.tensor([[4.0, 4.0]])  # (in, at) and (mind, bay)
print(pays * gains)  # rows: in, at; columns: mind, bay. Make the diagonal large and the rest small!

# %% [markdown]
# **Try this.** Change `pays` and `gains` in any way you like. The goal: both entries on the diagonal above
# 3, both others below 1. Stop when you see why it cannot be done.
#
# ### Exercise: What one source does, for many destinations
#
# *15 minutes · difficulty 2 of 3 · 3 points*
#
# Make this exact for a situation with two sources. One is the source we study. The other scores 0 with
# everybody and writes nothing (its OV row is zero). How much attention a destination pays to the source
# then follows from one entry of full_qk. It must be turned into a score first; `d_head` comes as an
# argument. Return the change of each output's *logit*, for each destination.


# %% answer
def skip_trigram_effect(full_qk, full_ov, source, destinations, outputs, d_head):
    """What one source adds to the logits, against a rival of score 0 that writes nothing.

    full_qk (d_vocab, d_vocab) is [destination, source], full_ov (d_vocab, d_vocab) is [source, output];
    source is a token id, destinations and outputs are lists of token ids, d_head is a number
    → (len(destinations), len(outputs))
    """
    ### BEGIN SOLUTION
    score = full_qk[destinations, source] / d_head**0.5
    attention = 1 / (1 + torch.exp(-score))  # e^score / (e^score + e^0)
    return attention[:, None] * full_ov[source, outputs]
    ### END SOLUTION


# %% check
check(skip_trigram_effect)

# %% [markdown]
# **What you showed.** However many destinations and outputs you take, the table has rank one. That holds
# for logits, and for differences between two outputs (*log-odds*). It does not hold for single
# log-probabilities, because the softmax over outputs divides each row by a sum of its own. The picture
# shows the singular values of all three for one source: rank one means that only the first is not zero.

# %% demo
g = torch.Generator().manual_seed(5)
attention, effect = torch.rand(6, generator=g), 2 * torch.randn(6, generator=g)
table = torch.einsum("d,o->do", attention, effect)
pictures.lines(
    {
        "logits": torch.linalg.svdvals(table),
        "log-odds against output 0": torch.linalg.svdvals(table - table[:, :1]),
        "log-probabilities": torch.linalg.svdvals(table.log_softmax(dim=1)),
    },
    x_label="singular value, in order",
    y_label="its size",
    title="One source, six destinations, six outputs",
)

# %% [markdown]
# ### Exercise: Which pairs are forced along
#
# *8 minutes · difficulty 1 of 3 · 1 point*
#
# Now without numbers. One source in one head serves some (destination, output) pairs. Which *other* pairs
# does it serve as well, like it or not? Tokens may be strings or ids; a token may occur on both sides. For
# `keep` with `[("in", "mind"), ("at", "bay")]` you know the answer already.


# %% answer
def bug_partners(pairs):
    """The pairs that come along when one source serves all the given ones.

    pairs: a list of (destination, output) → a set of (destination, output), the given ones not in it
    """
    ### BEGIN SOLUTION
    forced = set()
    for destination, _ in pairs:
        forced |= {(destination, output) for _, output in pairs}
    return forced - set(pairs)
    ### END SOLUTION


# %% check
check(bug_partners)

# %% [markdown]
# **What you showed.** Two phrases bring two bugs, three phrases six. A model can soften this: with several
# heads it can give each phrase to another head, and the direct path can push `in → bay` down again. What
# it cannot do is decide, inside one head, that `keep` should mean something else for `at`. This is a rare
# thing in machine learning: a mistake that you can *predict* from the architecture. In section 8 we look
# for it in the trained model.
#
# **Question.** A friend says: "I found a bug. The head does `keep … in → mind` and `hold … at → bay`, so it
# must also do `keep … at → bay`." Is that so?
#
# <details><summary>Answer</summary>
#
# No. There are two different sources. `keep` and `hold` have different rows in OV, so `hold` may raise
# `bay` while `keep` doesn't. The bug needs *one* source with two destinations.
#
# </details>

# %% [markdown]
# ## 5 · Heads that go by position
#
# The tables of section 3 know nothing about positions. But queries and keys read positions, too. In the
# paper's models (and ours) a position enters them and nothing else. So a head can choose its source by
# *where* it stands. To see only that, take the content away: pretend that every token has the embedding 0.
#
# ### Exercise: Where a head looks by position alone
#
# *8 minutes · difficulty 1 of 3 · 2 points*
#
# Queries and keys read `W_pos` only. Compute the pattern that comes of it, for a text of full length:
# divided by $\sqrt{d_\text{head}}$, causal, softmaxed.


# %% answer
def positional_pattern(W_pos, W_Q, W_K):
    """The pattern of one head if all content were zero.

    W_pos (n_ctx, d_model), W_Q and W_K (d_model, d_head) → (n_ctx, n_ctx), rows sum to 1
    """
    ### BEGIN SOLUTION
    scores = (W_pos @ W_Q) @ (W_pos @ W_K).T / W_Q.shape[1] ** 0.5
    visible = torch.ones_like(scores, dtype=torch.bool).tril()
    return torch.where(visible, scores, -torch.inf).softmax(dim=-1)
    ### END SOLUTION


# %% check
check(positional_pattern)

# %% [markdown]
# **What you showed.** Where a head looks is a competition between content and position, and each can be
# looked at alone. Here are the patterns by position alone of all heads of our trained model, for the first
# 24 positions.

# %% demo
places = model.W_pos[:24]
q, k = places @ model.W_Q[0], places @ model.W_K[0]
by_place = (q @ k.mT / model.d_head**0.5).masked_fill(torch.ones(24, 24).triu(1).bool(), -torch.inf)
pictures.patterns(by_place.softmax(dim=-1), columns=4)

# %% [markdown]
# A stripe near the diagonal is a head that prefers the last few tokens whatever they are. An even spread
# is a head with no opinion about position: it goes by content, or it does nothing. The paper found the same
# two kinds. How a stripe comes about you saw in notebook 02: positions lie on circles, and $W_{QK}$ turns
# them.

# %% [markdown]
# ## 6 · Large tables, thin factors
#
# For our little vocabulary a full table has four million entries. For the paper's, it has
# $50{,}257^2 \approx 2.5$ billion: 10 GB for each of the two tables of each head. Nobody can read that, and
# few computers can hold it. But the tables are *thin*: everything in them passed through `d_head`
# dimensions. Each is a product of a tall factor and a wide one,
#
# $$ M = A B, \qquad A = W_E W_V \;\; (d_\text{vocab}, d_\text{head}), \qquad B = W_O W_U \;\; (d_\text{head}, d_\text{vocab}) $$
#
# and the two factors take 13 MB each. The art is to ask questions about $M$ and compute with $A$ and $B$.
#
# **Eigenvalues.** If $A B v = \lambda v$ with $\lambda \ne 0$, multiply by $B$ from the left:
# $(BA)(Bv) = \lambda (Bv)$. And $Bv$ is not zero, or $\lambda v = A(Bv)$ would be. So every non-zero
# eigenvalue of the huge $AB$ is an eigenvalue of the small $BA$, which is (d_head, d_head). All others are 0.
#
# ### Exercise: Eigenvalues without the big matrix
#
# *8 minutes · difficulty 1 of 3 · 2 points*
#
# Return the k eigenvalues that can differ from zero. They are complex numbers in general; any order will
# do.


# %% answer
def low_rank_eigenvalues(A, B):
    """The eigenvalues of A @ B that can differ from zero, from a small matrix.

    A (n, k), B (k, n), with k at most n → (k,) complex, any order
    """
    ### BEGIN SOLUTION
    return torch.linalg.eigvals(B @ A)
    ### END SOLUTION


# %% check
check(low_rank_eigenvalues)

# %% [markdown]
# **What you showed.** Turning a product round is allowed for eigenvalues, and for their sum, the trace. It
# is **not** allowed for norms and singular values. The paper's authors once used it for a norm, and had to
# publish a corrected figure. Notebook 04 has an exercise on just that.
#
# **Singular values** need another way. If $A$ had orthonormal columns and $B$ orthonormal rows, they would
# do nothing to lengths. So split each factor into such a part and a small rest. What remains in the middle
# is small, and its SVD gives the SVD of the whole.
#
# ### Exercise: An SVD from two thin factors
#
# *20 minutes · difficulty 3 of 3 · 3 points*
#
# Return $U$, $S$, $V^T$ of `A @ B` without forming the product; one case watches the size of every array
# that you make. Two traps: the full form of an SVD or QR makes square matrices, as large as what you want to
# avoid; and $V^T$ is asked for, not $V$. The vectors' signs are free. You are judged by what must hold: the
# three multiply to the product, and the vectors are orthonormal.


# %% answer
def factored_svd(A, B):
    """The singular value decomposition of A @ B, which is never formed.

    A (n, k), B (k, m), with k at most n and m → tuple U (n, k), S (k,), Vh (k, m)
    """
    ### BEGIN SOLUTION
    U_A, S_A, Vh_A = torch.linalg.svd(A, full_matrices=False)
    U_B, S_B, Vh_B = torch.linalg.svd(B, full_matrices=False)
    # A B = U_A [S_A Vh_A U_B S_B] Vh_B, and the bracket is (k, k).
    middle = S_A[:, None] * (Vh_A @ U_B) * S_B
    U, S, Vh = torch.linalg.svd(middle)
    return U_A @ U, S, Vh @ Vh_B
    ### END SOLUTION


# %% check
check(factored_svd)

# %% [markdown]
# **What you showed.** A question about billions of numbers became one about a few thousand. From here on
# the size of the vocabulary hardly matters.

# %% [markdown]
# ## 7 · Does a head copy?
#
# Many skip-trigrams have the form `a … b → a`: the head looks at a token and makes that same token
# likelier. This is **copying**, the simplest way to use a text so far. In the full OV circuit it is the
# diagonal: entry $(a, a)$ is what $a$ does to itself. How can one number say that a whole table copies?
#
# **The eigenvalue test.** If $v M = \lambda v$ with a positive $\lambda$, the head maps this *mixture* of
# tokens to more of the same. If all eigenvalues are positive, then in this sense every mixture is
# copied. Negative eigenvalues: the head takes away what it sees. Complex ones: it turns tokens into other
# tokens. The picture shows eigenvalues of three heads made by hand, over a vocabulary of 200.

# %% demo
g = torch.Generator().manual_seed(1)
V, noise = (
    torch.randn(200, 24, generator=g) / 200**0.5,
    torch.randn(24, 200, generator=g) / 200**0.5,
)
heads = {"copies": V.T + 0.3 * noise, "random": noise, "takes away": -V.T + 0.3 * noise}
pictures.eigenvalues(
    {name: torch.linalg.eigvals(right @ V) for name, right in heads.items()}, columns=3
)

# %% [markdown]
# The paper sums this up in one number, and so do we:
#
# $$ \text{copying score} = \frac{\operatorname{Re}\sum_i \lambda_i}{\sum_i |\lambda_i|} \in [-1, 1] $$
#
# It is 1 if all eigenvalues are positive, −1 if all are negative, and about 0 for a random head.
#
# **Not a proof.** Before you trust it, break it. The paper warns: a matrix may have positive eigenvalues
# only, and still lower the logit of some token that it reads.
#
# ### Exercise: A matrix that fools the eigenvalues
#
# *15 minutes · difficulty 2 of 3 · 2 points*
#
# Build one. For any n from 2 on, return an (n, n) matrix whose eigenvalues are all real and positive and
# that has a negative number somewhere on its diagonal. Symmetric matrices can't do it: think about what
# is different when eigenvectors aren't perpendicular. Begin with n = 2, where trace and determinant say
# everything.


# %% answer
def eigenvalue_trap(n):
    """A matrix with positive real eigenvalues only, and a negative entry on its diagonal.

    n, a number from 2 on → (n, n)
    """
    ### BEGIN SOLUTION
    # Trace 3 and determinant 2: eigenvalues 1 and 2, though an entry on the diagonal is -2.
    trap = torch.eye(n)
    trap[0, 0], trap[0, 1] = 5.0, -4.0
    trap[1, 0], trap[1, 1] = 3.0, -2.0
    return trap
    ### END SOLUTION


# %% check
check(eigenvalue_trap)

# %% [markdown]
# **What you showed.** The trace is both the sum of the eigenvalues and the sum of the diagonal. So
# positive eigenvalues do say that the diagonal is positive *on the whole*. They say nothing about a single
# token.
#
# ### Exercise: The eigenvalue test for copying
#
# *12 minutes · difficulty 2 of 3 · 3 points*
#
# Compute the score of the full OV circuit of one head. It must work at a vocabulary of 50,257 in less than
# 1 GiB beyond its inputs and 60 seconds. In your notebook the check watches your largest array at a small
# vocabulary; graded in a process of its own, your function also meets the large one. The result is one real
# number.


# %% answer
def copying_score(W_E, W_V, W_O, W_U):
    """Re Σλ / Σ|λ| of the full OV circuit, from its factors.

    W_E (d_vocab, d_model), W_V (d_model, d_head), W_O (d_head, d_model), W_U (d_model, d_vocab)
    → one real number between -1 and 1
    """
    ### BEGIN SOLUTION
    small = (W_O @ W_U) @ (W_E @ W_V)  # (d_head, d_head), same non-zero eigenvalues
    eigenvalues = torch.linalg.eigvals(small.double())
    return eigenvalues.sum().real / eigenvalues.abs().sum()
    ### END SOLUTION


# %% check
check(copying_score)

# %% [markdown]
# **What you showed.** Four easy ways lead to a wrong number here, and each has been seen in published code
# or course answers: singular values (always 1), a solver for symmetric matrices, the share of positive
# eigenvalues (½ for a random head, not 0), and the eigenvalues of $W_{OV}$ without embedding and unembedding,
# which can differ even in sign.
#
# **The row-wise test** asks each token by itself: of all outputs, does the head raise *this token* most?
# The answer is a share of tokens. It cannot be fooled as above, but it is strict: a token that is beaten by
# one close relative (` The` by ` the`) counts as not copied.
#
# ### Exercise: The row-wise test for copying
#
# *15 minutes · difficulty 2 of 3 · 3 points*
#
# Return the share of rows of the full OV circuit whose largest entry is on the diagonal. Ties count: the
# row passes if nothing is *larger* than its own entry. Here every entry has to be made once, but not all
# at the same time. Go through the rows in chunks of a few hundred. One case has a vocabulary of 2,500 and
# allows arrays of 14 MiB.


# %% answer
def copying_rank(W_E, W_V, W_O, W_U):
    """The share of tokens that a look at them raises most of all tokens; ties count.

    W_E (d_vocab, d_model), W_V (d_model, d_head), W_O (d_head, d_model), W_U (d_model, d_vocab)
    → one number between 0 and 1
    """
    ### BEGIN SOLUTION
    A, B = W_E @ W_V, W_O @ W_U
    copied = 0
    for start in range(0, len(A), 256):
        rows = A[start : start + 256] @ B
        own = rows.diagonal(start)  # row i of the chunk belongs to token start + i
        copied += int((own >= rows.amax(dim=1)).sum())
    return copied / len(A)
    ### END SOLUTION


# %% check
check(copying_rank)

# %% [markdown]
# **What you showed.** Two tests of one property. Put them side by side on four heads whose table we can
# write down: the eigenvalue **score**, the share of **rows won**, and the share of tokens that a look at
# least **raises**. The last two heads are made to fool the first test. One repeats a 2 × 2 trap along the
# diagonal. The other always says the same word, whatever it reads.

# %% demo
n = 8
trap = torch.block_diag(*[torch.tensor([[4.0, -2.0], [3.0, -1.0]])] * (n // 2))
one_word = torch.ones(n, 1) @ torch.tensor([[3.0] + [-0.3] * (n - 1)]) + 0.01 * torch.eye(n)
g = torch.Generator().manual_seed(3)
kinds = {
    "copies": torch.eye(n),
    "random": torch.randn(n, n, generator=g),
    "traps": trap,
    "one word": one_word,
}
tests = []
for M in kinds.values():
    lam = torch.linalg.eigvals(M)
    wins = (M.diagonal() >= M.amax(dim=1)).float().mean()
    tests.append([lam.real.sum() / lam.abs().sum(), wins, (M.diagonal() > 0).float().mean()])
pictures.matrix(
    torch.tensor(tests),
    rows=list(kinds),
    columns=["score", "rows won", "raised"],
    axes=("head", "test"),
    title="What each test says",
)

# %% [markdown]
# "Traps" gets a full score, and half of its tokens lower themselves. "One word" gets a full score, and
# seven of eight tokens lower themselves: its one large eigenvalue belongs to the one word that it always
# says. So read the eigenvalues first, they are cheap, and then look at rows.

# %% [markdown]
# ## 8 · Read it in a trained model
#
# Our one-layer model has eight heads and was trained on Python code, its documentation and English. First
# the two tests, for each head, with the share of tokens that raise themselves at all. The paper's model had
# twelve heads, and ten of them copied.

# %% demo
E, U = model.W_E, model.W_U
rows_of_tests = []
for W_V, W_O in zip(model.W_V[0], model.W_O[0], strict=True):
    lam = torch.linalg.eigvals(W_O @ (U @ E) @ W_V)
    M = E @ W_V @ W_O @ U
    wins = (M.diagonal() >= M.amax(dim=1)).float().mean()
    rows_of_tests.append(
        [lam.real.sum() / lam.abs().sum(), wins, (M.diagonal() > 0).float().mean()]
    )
tests = torch.tensor(rows_of_tests)
chance = torch.linalg.eigvals(
    torch.randn(300, 32, 128, generator=g) @ torch.randn(300, 128, 32, generator=g)
)
chance = (chance.real.sum(dim=1) / chance.abs().sum(dim=1)).std()
print(
    f"{int((tests[:, 0] > 0.5).sum())} of {model.n_heads} heads have a score above 0.5 (the paper: 10 of 12)"
)
print(f"Random heads of this size score 0, give or take {chance:.2f}.")
pictures.matrix(
    tests,
    rows=[f"head {h}" for h in range(model.n_heads)],
    columns=["score", "rows won", "raised"],
    axes=("", "test"),
    title="Do its heads copy?",
)

# %% [markdown]
# Heads with a score near 1 raise most tokens that they look at. But they win few rows: there is nearly
# always some other token that gains more. In a real vocabulary a word has relatives, with a capital letter or without a space, and pieces of words
# have neighbors. "Copies" is a statement about directions more than about single tokens. Here are the
# eigenvalues themselves.

# %% demo
pictures.eigenvalues(
    {
        f"head {h}": torch.linalg.eigvals(W_O @ (U @ E) @ W_V)
        for h, (W_V, W_O) in enumerate(zip(model.W_V[0], model.W_O[0], strict=True))
    }
)

# %% [markdown]
# In heads 0 to 3 one eigenvalue stands far out on the negative side, and it alone rules the score: leave it
# out, and what is left would count as copying. It belongs to one mixture of tokens. This is the
# "one word" head over again, with the sign turned: such a number says little about the tokens one by one. In the
# copying heads there are many positive ones.
#
# **Now the phrases.** Read off raw entries, they disappoint. For the destination `(`, these are the sources
# that one head likes best, with what they raise most:

# %% demo
destination, head = model.tokenizer.token_id("("), 3
likes = E[destination] @ model.W_Q[0, head] @ (E @ model.W_K[0, head]).T
for s in likes.topk(5).indices:
    raises = E[s] @ model.W_V[0, head] @ model.W_O[0, head] @ U
    print(f"{label[s]:>14} … {label[destination]} → ", *(label[o] for o in raises.topk(5).indices))

# %% [markdown]
# A weight that is never used is never corrected, so rare tokens collect large entries by accident. The cure:
# ask what a head is *used* for. Take a text, and count an entry of OV only where the head really looked, and
# only for the token that really came next.
#
# ### Exercise: What a head is really used for
#
# *25 minutes · difficulty 3 of 3 · 4 points*
#
# For one head and one text: each pair of a destination and an *earlier* source makes one use, if the
# destination has a next token. It is worth attention times the OV entry of the source token and the true next
# token. The same three tokens may meet many times: their uses belong into one sum. Return the k largest sums
# as a list of (source, destination, next, sum), best first; all of them if there are fewer than k.


# %% answer
def used_skip_trigrams(tokens, pattern, full_ov, k):
    """The skip-trigrams for which one head is used on a text, with what they add to the logits.

    tokens (pos,), pattern (pos, pos) is [dst, src], full_ov (d_vocab, d_vocab) is [source, output],
    k is a number → list of k tuples (source, destination, next, sum), token ids and a float, best first
    """
    ### BEGIN SOLUTION
    ids = tokens.tolist()
    sums = {}
    for dst in range(1, len(ids) - 1):
        for src in range(dst):
            triple = ids[src], ids[dst], ids[dst + 1]
            added = float(pattern[dst, src] * full_ov[ids[src], ids[dst + 1]])
            sums[triple] = sums.get(triple, 0.0) + added
    best = sorted(sums, key=lambda triple: -sums[triple])[:k]
    return [(*triple, sums[triple]) for triple in best]
    ### END SOLUTION


# %% check
check(used_skip_trigrams)

# %% [markdown]
# **What you showed.** You can rank what a model knows by what it is good for. Here is the same ranking over
# many texts that the model has not been trained on, for every head, with a function of ours that is fast
# (uses that add less than 0.1 are left out).

# %% demo
texts = torch.cat(
    [models.sample_tokens(kind)[:4096].reshape(-1, 256) for kind in ("code", "docs", "english")]
)
for head, found in enumerate(skip_trigrams.used(model, texts)):
    total = found["total"] * (found["uses"] > 2)
    phrases = [tuple(label[i] for i in found["triples"][j]) for j in total.topk(5).indices]
    print(f"head {head}: ", "   ".join(f"{s} … {d} → {n}" for s, d, n in phrases))

# %% [markdown]
# These are phrases one can read: brackets that close, keywords that belong together, words that continue.
# Heads that go by position show up as plain trigrams, in which the source stands right before the
# destination. In the head with the highest score, look for phrases that begin and end with the same token:
# that is copying at work. A search over the whole held-out sample found the following to be used most (the
# list ships with the model, without phrases of mere punctuation). Compare it with the paper's examples in
# section 3: another model, trained on other text, has learned some of the very same.

# %% demo
findings = skip_trigrams.load_findings()
for use in findings["skip_trigrams"][:14]:
    s, d, n = (label[i] for i in use["tokens"])
    print(
        f"head {use['head']}: {s:>14} … {d:^10} → {n:10} {use['uses']:4} uses, {use['mean']:.1f} logits each"
    )

# %% [markdown]
# ### The bug, found in the weights
#
# Now look for the mistake of section 4: one head, one source, two phrases that it serves in real text, and
# the crossing of the two, which the text doesn't have. The picture shows the table of effects of one
# source as the weights have it: attention (against ` the` as the rival source) times OV.

# %% demo
bugs = findings["bugs"]
bug = next((b for b in bugs if label[b["tokens"][0]] == "if"), bugs[0])
(s, d_wrong, n_wrong), ((_, d1, n1), (_, d2, n2)), head = bug["tokens"], bug["parts"], bug["head"]
queries, rival = E[[d1, d2]] @ model.W_Q[0, head], model.tokenizer.token_id(" the")
score = queries @ ((E[s] - E[rival]) @ model.W_K[0, head]) / model.d_head**0.5
moved = E[s] @ model.W_V[0, head] @ model.W_O[0, head] @ U
moved = moved - moved.mean()
print(
    f"wanted:  {label[s]} … {label[d1]} → {label[n1]}   and   {label[s]} … {label[d2]} → {label[n2]}"
)
print(f"forced:  {label[d_wrong]} → {label[n_wrong]} as well, once {label[s]!r} has been seen")
pictures.matrix(
    torch.sigmoid(score)[:, None] * moved[[n1, n2]],
    rows=[label[d1], label[d2]],
    columns=[label[n1], label[n2]],
    axes=("destination", "output"),
    title=f"What the source “{label[s]}” adds, in head {head}",
)

# %% [markdown]
# Does the model *believe* it? Take real places of the destination in held-out text, put the source four
# tokens before it (or ` the` in the same spot), and compare the probability of the wrong token. The counts
# are of the whole training text: how often each phrase occurs within 24 tokens.

# %% demo
lines = ["source … destination → output      p without   p with   in the training text"]
for found in bugs[:10]:
    s, d, n = found["tokens"]
    without, with_source = skip_trigrams.probability(model, models.sample_tokens(), (s, d, n))
    name = f"{label[s]} … {label[d]} → {label[n]}"
    parts = ", ".join(
        f"{label[q]} → {label[r]} {c}"
        for (_, q, r), c in zip(found["parts"], found["part_counts"], strict=True)
    )
    lines.append(f"{name:34} {without:9.5f} {with_source:8.5f}   {found['count']} times; {parts}")
print("\n".join(lines))

# %% [markdown]
# Every line is a mistake of the kind that the algebra foretells. Seeing the source makes the wrong token
# several times likelier, and the training text never had it. None is a large mistake in itself: the other paths
# push back. But each is there, and you know why.

# %% [markdown]
# Hunt for more of them. Type or pick a destination: the table says what it looks at, what each source raises, and
# how often the held-out text has all three. Then pick a source. Right pairs carry their count in the grid, and ✗
# marks what they force along.

# %% demo
lab.skip_trigrams(model, "(", head=(0, 3))

# %% [markdown]
# ## 9 · Why "one layer = skip-trigrams" is not a theorem
#
# All this was read with the attention *frozen*. Then a head is a sum over sources, and each term is a
# skip-trigram. But the attention is not given. It is shared out among all sources of the text, so what one
# source gets depends on who else is there. A third token that stands between can take the attention away.
# With softmax, sources **compete**, and the effect of two sources is not the sum of the effects of each.
#
# ### Exercise: Two sources are not the sum of two
#
# *20 minutes · difficulty 3 of 3 · 4 points*
#
# Measure it. At one destination `dst`, compare four runs: with all sources; without the source at position
# `a`; without the one at `b`; without both. "Without" means that no head may look there: the softmax is taken
# anew over those that are left. The text and its positions stay as they are. Return
#
# $$ \text{logits}_\text{all} - \text{logits}_{\text{without } a} - \text{logits}_{\text{without } b} + \text{logits}_\text{without both} $$
#
# at `dst`. If effects added up, this would be zero.


# %% answer
def source_interaction(tokens, model, dst, a, b):
    """How far the effects of two sources on the logits at dst are from adding up.

    tokens (pos,), model with one layer; dst, a, b are positions, a and b differ and lie before dst
    → (d_vocab,)
    """
    ### BEGIN SOLUTION
    _, cache = model.run_with_cache(tokens)
    scores = cache.scores[0, :, dst, : dst + 1]  # (head, src): the future stays out
    values = cache.v[0, :, : dst + 1]  # (head, src, d_head)

    def logits_without(*hidden):
        left = scores.clone()
        left[:, list(hidden)] = -torch.inf
        z = torch.einsum("hs,hse->he", left.softmax(dim=-1), values)
        added = torch.einsum("he,hem->m", z, model.W_O[0])
        return (model.W_E[tokens[dst]] + added) @ model.W_U

    return logits_without() - logits_without(a) - logits_without(b) + logits_without(a, b)
    ### END SOLUTION


# %% check
check(source_interaction)

# %% [markdown]
# **What you showed.** It is not zero. How large can it be? Here is a text with two sources of the same kind:
# two lines `try:`, and a new line begins. The bars show how much the logit of the model's first choice drops
# when one `try` is hidden, or both.

# %% demo
code = model.tokenizer.encode(
    "    try:\n        open(name)\n    try:\n        return self.table[name]\n    "
)
_, run = model.run_with_cache(code)
dst, twins = len(code) - 1, (code == model.tokenizer.token_id("try")).nonzero().flatten().tolist()


def at_dst(*hide):
    kept = run.scores[0, :, dst].index_fill(1, torch.tensor(hide).long(), -torch.inf)
    mixed = (kept.softmax(dim=-1)[:, None] @ run.v[0] @ model.W_O[0]).sum(dim=(0, 1))
    return (run.stream[0, dst] + mixed) @ U


choice = int(at_dst().argmax())
drops = torch.stack([at_dst() - at_dst(*hide) for hide in (twins[:1], twins[1:], twins)])[:, choice]
pictures.bars(
    torch.stack([drops[0], drops[1], drops[0] + drops[1], drops[2]]),
    ["hide first", "hide second", "sum of these", "hide both"],
    y_label="drop of the logit",
    title=f"What the logit of “{label[choice]}” loses",
)

# %% [markdown]
# Hide one, and the other takes over its share of the attention: little is lost. Hide both, and far more is lost
# than both losses together.
#
# The last two bars differ: that difference is your exercise's number for this token. So the honest sentence
# is: *with its attention frozen, a one-layer model is a sum of bigrams and skip-trigrams.* What is not frozen
# is not a table of three tokens; it depends on everything else in the text. A critic of the phrase has
# [worked this out](https://www.lesswrong.com/posts/b5HNYh9ne5vEkX5ag/one-layer-transformers-aren-t-equivalent-to-a-set-of-skip),
# and the paper itself says that the tables can't be read without knowing the text.
#
# **Question.** Could a one-layer model use this competition to do something that no sum of skip-trigrams can?
# Think of a head that looks at `a` and writes something, and of a second kind of token that draws more
# attention than `a` and writes nothing.
#
# <details><summary>Answer</summary>
#
# Yes. Tokens of the second kind work as a switch: where one stands in the text, the head looks at it, and `a`
# loses its effect. "`a`, unless a `b` came too" is not a sum of an effect of `a` and an effect of `b` with
# each fixed. With frozen patterns you would never see the rule, only its result in this one text.
#
# </details>

# %% [markdown]
# ### Question: What a copying score says
#
# *10 minutes · 2 points, marked by a person*
#
# You are shown a one-layer model whose head 2 has the copying score 0.97. A colleague concludes: "Head 2
# copies every token." Write about five sentences. What does the number show? What does it not show? Which two
# measurements would you make next, and what would each of them tell you?
#
# Write your answer into the next cell: double-click it, replace the words that stand there, press Shift+Enter.
# No program judges it. In a class a person does. Alone, mark it yourself by `solution("what_a_copying_score_says")`.

# %% question [markdown] name="what_a_copying_score_says" points=2
# ### BEGIN SOLUTION
# **A good answer.** The eigenvalues of the full OV circuit are nearly all positive, weighed by their size. So the
# diagonal is positive on the whole, since both sum to the trace. That any *given* token raises itself does not
# follow: eigenvectors need not be perpendicular, and one large eigenvalue can hide many small ones ("one
# word"). Nor does the number say *where* the head looks; an OV circuit that nobody attends to copies nothing.
# Next one would look at the rows (the row-wise test, or how high each token stands in its own row), and at what
# the head is used for on text: attention times OV on the true next token. A random head of the same size, for
# comparison, is worth having too.
#
# **Marking guide**
#
# - **1 point**: says what the score is about (eigenvalues, hence the diagonal as a whole) and that single tokens may
#   still lower themselves, with a reason: a trap, one large eigenvalue, eigenvectors that are not perpendicular.
# - **1 point**: names two measurements that go beyond the score, and what each would show. One of them must look at
#   rows or single tokens, or at where the head looks.
# ### END SOLUTION

# %% [markdown]
# ## What you have shown
#
# | the paper says | you built |
# |---|---|
# | With frozen patterns the logits are a sum: the direct path and one term a head. | `frozen_logits`, `one_layer_paths` |
# | Each head is a QK table and an OV table over tokens, together skip-trigrams. | `full_qk_circuit`, `full_ov_circuit`, `top_skip_trigrams` |
# | The product form forces wrong phrases: skip-trigram bugs. | `skip_trigram_effect`, `bug_partners` |
# | Some heads go by position. | `positional_pattern` |
# | Large tables are thin: work with the factors. | `low_rank_eigenvalues`, `factored_svd` |
# | Most heads copy, by their eigenvalues; and this is no proof. | `copying_score`, `eigenvalue_trap`, `copying_rank` |
# | Tables must be read with the text in mind. | `used_skip_trigrams`, `source_interaction` |
#
# Everything here had one layer, and so every head read plain tokens. **Next:**
# [04 · composition](../04-composition/04-composition.ipynb) puts a second layer on top, whose heads read what
# the first layer's heads wrote. With that, a model can do things that no table of three tokens can.

# %%
progress()
