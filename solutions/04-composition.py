# %% [markdown]
# # 04 · Composition: heads that read heads
#
# In notebook 03 every head read the same thing, the embedding. With a second layer that changes. A
# head of layer 1 reads the stream *after* layer 0 has written to it, so one head can build on what
# another one did. This is called **composition**, and it is what makes two layers more than twice one
# layer.
#
# **After this notebook you can**
#
# - name the three ways in which a head can read another one, and measure each from the weights;
# - compute with large products without ever forming them, and say which rule holds for a trace and
#   fails for a norm (the authors of the paper were caught by it, too);
# - say what random heads score, and read a composition table with that in mind;
# - cut one kind of composition in a running model and see what it was good for;
# - write a two-layer model as a sum of paths, logits as well as attention scores;
# - say what composition scores do *not* tell.
#
# **Time:** about three and a half hours, in pieces if you like. **It builds on**
# [02 · attention heads](../02-attention-heads/02-attention-heads.ipynb), and on the path expansion of
# notebook 03. In the [paper](https://transformer-circuits.pub/2021/framework/index.html) you are in
# the sections from "Three Kinds of Composition" to "Virtual Attention Heads", and in the appendix
# "Working with Low-Rank Matrices".
#
# As before: `check(name)` judges your function, `hint(name)` gives one hint at a time, and
# `solution(name)` shows our way once you have passed.

# %%
import torch

from grader import check, hint, lab, models, progress, solution
from grader.lab import pictures
from grader.transformer import Transformer

# %% [markdown]
# ## 1 · Three ways in
#
# A head has three inputs: queries, keys and values. In the simplest model all three read the same
# stream. But nothing forces a head to use what it reads in the same way three times. Each input has
# weights of its own, $W_Q$, $W_K$, $W_V$, and each of them may or may not look at what an earlier head
# wrote. So there are three ways for a head of layer 1 to read a head of layer 0:

# %% demo
pictures.composition_diagram("Three ways to read a head")

# %% [markdown]
# - **Q-composition**: the destination's *question* depends on what an earlier head brought there.
#   "A name was mentioned before, so I look for its owner."
# - **K-composition**: the source's *label* depends on what an earlier head brought there. "The token
#   before me was a name": now other positions can look for that.
# - **V-composition**: what is *copied* was itself copied. The information makes two jumps.
#
# Q and K are alike in one respect: both change **where** the later head looks. The pattern becomes a
# function of more than one token on either side, and this is the new power of a second layer. V changes
# **what** is moved, never where. Two heads in a row with V-composition act like one head with a
# pattern of its own. You will meet it below as the *virtual head*.
#
# | | one layer | two layers |
# |---|---|---|
# | where a head looks | this token, that token, positions | also what earlier heads brought to either side |
# | what it moves | a token's embedding | also what an earlier head had moved |

# %% [markdown]
# ## 2 · How strongly does one head read another?
#
# All heads write into the same stream, but not into the same part of it. A head with `d_head` 32 writes
# into 32 directions of, say, 128, and its successor reads by a few directions per input. The question is
# how well the two fit together: **does what the first one writes land where the second one reads?**
#
# Take row vectors. A vector $x$ at a source becomes $x\,W_{OV}^1$ at the destination, so the *columns* of
# $W_{OV}^1$ say where head 1 writes. The *rows* of $W_{QK}^2$ are the query side of head 2. Chain the two,
# and a matrix comes out that says how head 1's input turns up in head 2's query:
#
# $$ x \;\longrightarrow\; x\,W_{OV}^1 \;\longrightarrow\; x\,W_{OV}^1 W_{QK}^2 $$
#
# If head 1 writes where the query of head 2 does not look, this product is zero. If the two fit
# perfectly, it is as large as the two factors allow. The picture shows a pair written by hand: head 1
# writes into directions 3 and 4, the *keys* of head 2 read just those, and its queries read 0 and 1.

# %%
g = torch.Generator().manual_seed(0)
one = torch.eye(6)
writes = torch.randn(6, 2, generator=g) @ one[3:5]  # (reads, writes)
query_key = one[:2].T @ torch.randn(2, 2, generator=g) @ one[3:5]  # (query side, key side)

# %% demo
pictures.matrices(
    {
        "W_OV of head 1": writes,
        "W_QK of head 2": query_key,
        "into its queries": writes @ query_key,
        "into its keys": writes @ query_key.T,
    },
    axes={
        "W_OV of head 1": ("reads", "writes"),
        "W_QK of head 2": ("query side", "key side"),
        "into its queries": ("read by head 1", "meets the key side"),
        "into its keys": ("read by head 1", "meets the query side"),
    },
)

# %% [markdown]
# One product is empty, the other is not: this pair composes through its keys only.
#
# To make one number of it, take the **Frobenius norm** $\lVert M \rVert$, the root of the sum of all
# squared entries, and divide by the norms of both factors, so that loud heads get no bonus:
#
# $$ \text{Q-composition} = \frac{\lVert W_{OV}^1\, W_{QK}^2 \rVert}{\lVert W_{OV}^1 \rVert\;\lVert W_{QK}^2 \rVert} $$
#
# It lies between 0 (head 2's queries never see head 1) and 1 (the strongest direction that head 1 writes
# is the one that they read, and there is no other).
#
# **The paper writes columns.** Its formulas look different and mean the same. Its $W_{OV}$ is the
# transpose of ours, its $W_{QK}$ is the same matrix:
#
# | | the paper: columns | this course: rows |
# |---|---|---|
# | Q | $\lVert W_{QK}^{2\,T}\, W_{OV}^1 \rVert$ | $\lVert W_{OV}^1\, W_{QK}^2 \rVert$ |
# | K | $\lVert W_{QK}^2\, W_{OV}^1 \rVert$ | you find it below |
# | V | $\lVert W_{OV}^2\, W_{OV}^1 \rVert$ | you find it below |
#
# A product turned over as a whole has the same norm, so the scores agree. But a product of which only
# *one factor* is turned over is another matrix. Putting our matrices into the paper's formula gives a
# number that looks fine and means nothing.
#
# ### Exercise: Q-composition
#
# *10 minutes · difficulty 1 of 3 · 2 points*
#
# Both heads come as whole matrices of shape (d_model, d_model), the earlier head first. Return the ratio
# as it is. No baseline is taken off yet.


# %% answer
def q_composition(W_OV_1, W_QK_2):
    """How much the later head's queries read what the earlier head writes.

    W_OV_1 (d_model, d_model) of the earlier head, W_QK_2 (d_model, d_model) of the later one,
    query side in the rows → one number, a ratio of Frobenius norms
    """

    ### BEGIN SOLUTION
    def frobenius(M):
        return M.square().sum().sqrt()

    into_queries = W_OV_1 @ W_QK_2  # what head 1 writes meets the query side
    return frobenius(into_queries) / (frobenius(W_OV_1) * frobenius(W_QK_2))
    ### END SOLUTION


# %% check
check(q_composition)

# %% [markdown]
# **What you showed.** Whether two heads work together can be asked of their weights alone, before any
# text has been read.
#
# ### Exercise: K-composition
#
# *5 minutes · difficulty 1 of 3 · 1 point*
#
# The same for the keys. The key side of $W_{QK}$ is its columns. What must you do so that head 1's
# output meets that side?


# %% answer
def k_composition(W_OV_1, W_QK_2):
    """How much the later head's keys read what the earlier head writes.

    W_OV_1 (d_model, d_model) of the earlier head, W_QK_2 (d_model, d_model) of the later one,
    query side in the rows → one number, a ratio of Frobenius norms
    """
    ### BEGIN SOLUTION
    # With the query side in the columns, W_QK of the later head asks the same thing of its keys.
    return q_composition(W_OV_1, W_QK_2.T)
    ### END SOLUTION


# %% check
check(k_composition)

# %% [markdown]
# ### Exercise: V-composition
#
# *5 minutes · difficulty 1 of 3 · 1 point*
#
# The same for the values. Now both matrices are OV circuits: rows read, columns write. Mind the order.


# %% answer
def v_composition(W_OV_1, W_OV_2):
    """How much the later head's values read what the earlier head writes.

    W_OV_1 (d_model, d_model) of the earlier head, W_OV_2 (d_model, d_model) of the later one
    → one number, a ratio of Frobenius norms
    """
    ### BEGIN SOLUTION
    product = W_OV_1 @ W_OV_2  # a row vector meets head 1 first
    return product.norm() / (W_OV_1.norm() * W_OV_2.norm())
    ### END SOLUTION


# %% check
check(v_composition)

# %% [markdown]
# **What you showed.** The three scores differ in one thing only: which side of which matrix the earlier
# head's output arrives at.
#
# **Try this.** Take the `#` away once your answers have passed. Which score does not change when head 2
# becomes ten times louder? Which one changes when you transpose `query_key`?

# %%
louder = 10 * query_key
# print(q_composition(writes, query_key), k_composition(writes, query_key))
# print(q_composition(writes, louder), k_composition(writes, louder))
# print(q_composition(writes, query_key.T), k_composition(writes, query_key.T))

# %% [markdown]
# ## 3 · A norm of something that you never form
#
# The matrices above are square and full of numbers that say little. With `d_model` 768 and `d_head` 64, a
# $W_{OV}$ has 589,824 entries, and the two factors it is made of have 98,304 together. Over a whole
# vocabulary the same circuit is a matrix of 50,257 × 50,257, some ten gigabytes for each head. So one
# works with the factors: $A$ of shape (n, k), $B$ of shape (k, m), and k small.
#
# In notebook 03 you used a beautiful rule for this. Eigenvalues and the trace do not care whether the
# factors are turned in a circle:
#
# $$ \operatorname{tr}(A B) = \operatorname{tr}(B A), \qquad \text{and } AB,\ BA \text{ have the same non-zero eigenvalues.} $$
#
# $BA$ is a small (k, k) matrix, and everything is easy. It is tempting to use the rule for the norm as
# well. **The authors' own library did, and a figure of the paper was wrong for it.** In the
# [comments](https://transformer-circuits.pub/2021/framework/index.html#comment-errata) they correct the
# picture of composition scores: factors had been turned in a circle inside a norm. In the corrected
# picture there was more composition than before, and two of the induction heads turned out to read a
# second head of layer 0, too.
#
# The picture shows the rule at work on the four thin factors of a Q-composition,
# $W_V^1$, $W_O^1$, $W_Q^2$ and $W_K^{2\,T}$, turned once, twice, three times.

# %% demo
g = torch.Generator().manual_seed(3)
W_V1, W_O1 = torch.randn(64, 8, generator=g), torch.randn(8, 64, generator=g)
W_Q2, W_K2 = torch.randn(2, 64, 8, generator=g)
turning = [W_V1, W_O1, W_Q2, W_K2.T]
orders = [turning[i:] + turning[:i] for i in range(4)]
turned = [torch.linalg.multi_dot(order) for order in orders]
names = ["V O Q K", "O Q K V", "Q K V O", "K V O Q"]
print("trace:", *(f"{float(M.trace()):.1f}" for M in turned))
pictures.bars(
    torch.stack([M.norm() for M in turned]),
    names,
    x_label="order of the four factors",
    y_label="Frobenius norm",
    title="Turning factors in a circle keeps the trace, not the norm",
)

# %% [markdown]
# The traces above the picture are all the same number. The norms are not. Nothing warns you: every one of
# these norms is a plausible number.
#
# **Question.** Why is the rule right for a trace and wrong for a norm?
#
# <details><summary>Answer</summary>
#
# A trace adds up closed loops: $\sum_{ij} A_{ij} B_{ji}$ starts at $i$, goes to $j$ and comes back. A loop
# has no beginning, so it does not matter with which factor you start. A norm measures everything that
# goes in at one end and comes out at the other. Turning the factors changes the ends: other things go in,
# and other things come out.
#
# </details>
#
# ### Exercise: The norm of a product that is never formed
#
# *20 minutes · difficulty 3 of 3 · 3 points*
#
# Compute $\lVert A B \rVert$ without forming $A B$. In one of the cases the product would be far larger than
# its factors, and no array of that size may be made. A way to start: the squared norm is a *trace*,
# $\lVert M \rVert^2 = \operatorname{tr}(M M^T)$. Put $M = AB$ into it, and then you *may* use the rule.


# %% answer
def low_rank_frobenius(A, B):
    """The Frobenius norm of A @ B, not squared, without forming the product.

    A (n, k), B (k, m), where k is small → one number
    """
    ### BEGIN SOLUTION
    # ‖AB‖² = tr(A B Bᵀ Aᵀ) = tr((AᵀA)(B Bᵀ)), and the trace of a product of two symmetric
    # matrices is the sum of their entries multiplied one by one.
    of_A = A.T @ A  # (k, k)
    of_B = B @ B.T  # (k, k)
    return (of_A * of_B).sum().sqrt()
    ### END SOLUTION


# %% check
check(low_rank_frobenius)

# %% [markdown]
# **What you showed.** The rule is fine where it is true: inside a trace. What is left are two small
# matrices, each made of one factor and its own transpose, and the long axes are gone. The same trick
# compares heads over a vocabulary of 50,257 tokens in a few megabytes.

# %% [markdown]
# ## 4 · What do random heads score?
#
# Say the score of a pair is 0.11. Is that much? A score is never zero by itself: two heads that know
# nothing of each other still overlap by chance, because they share one stream.
#
# Here is how much. Put an arbitrary rotation $U$ of the stream between two matrices, as if the second
# head had been built without looking at the first. On average over all rotations,
#
# $$ \lVert W_1\, U\, W_2 \rVert^2 \;=\; \frac{\lVert W_1 \rVert^2\;\lVert W_2 \rVert^2}{d_\text{model}}. $$
#
# The reason in one sentence: a rotated vector has, on average, the share $1/d_\text{model}$ of its squared
# length in any given direction. So the *squared* score of random heads is $1/d_\text{model}$ on average, and
# the score itself is about $1/\sqrt{d_\text{model}}$: 0.036 for 768 dimensions, 0.088 for 128.
#
# About, not exactly: the mean of a root is a little less than the root of the mean. How much less, and
# how much single pairs scatter, you find out by drawing some.
#
# ### Exercise: What random heads score
#
# *15 minutes · difficulty 2 of 3 · 3 points*
#
# Draw `samples` pairs of random heads and compute the V-composition of each pair. A random head is a
# $W_{OV}$ made of *thin* Gaussian factors, (d_model, d_head) and (d_head, d_model); the four factors of a
# pair are independent. Return the mean score and its **standard error**, the standard deviation of the
# scores over $\sqrt{\text{samples}}$: how far the mean itself may be off. The result must follow from `seed`, and
# the global generators must stay untouched, so make your own `torch.Generator`. Your numbers are random,
# so they are judged by that error: mean and standard error earn points separately.


# %% answer
def random_composition(d_model, d_head, samples, seed):
    """Mean V-composition of two random thin heads, and the standard error of that mean.

    d_model, d_head: sizes of the heads; samples (at least 200): how many pairs; seed: an integer
    → tuple (mean, standard error)
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)

    def heads():  # all samples at once: (samples, d_model, d_model)
        W_V = torch.randn(samples, d_model, d_head, generator=generator)
        W_O = torch.randn(samples, d_head, d_model, generator=generator)
        return W_V @ W_O

    first, second = heads(), heads()
    norms = [W.flatten(1).norm(dim=1) for W in (first @ second, first, second)]
    scores = norms[0] / (norms[1] * norms[2])
    return float(scores.mean()), float(scores.std()) / samples**0.5
    ### END SOLUTION


# %% check
check(random_composition)

# %% [markdown]
# **What you showed.** Chance alone gives a score that depends on the width of the stream and hardly on
# anything else. The spread does depend on more. Thin heads scatter, because few directions have to meet;
# full matrices of the same size average over many.

# %% demo
g = torch.Generator().manual_seed(0)
thin = torch.randn(4, 1500, 48, 6, generator=g)
first, second = thin[0] @ thin[1].mT, thin[2] @ thin[3].mT
full_1, full_2 = torch.randn(2, 1500, 48, 48, generator=g)
size = torch.linalg.matrix_norm
pictures.histogram(
    {
        "thin, d_head 6": size(first @ second) / size(first) / size(second),
        "full": size(full_1 @ full_2) / size(full_1) / size(full_2),
    },
    levels={"1/√d_model": 48**-0.5},
    x_label="V-composition",
    title="Random heads in a stream of 48 dimensions",
)

# %% [markdown]
# So a baseline taken from full matrices has the right height and far too little spread: with it almost any
# head seems to be far from chance. (This is why some courses insist on thin random heads.) In this
# course the baseline is $1/\sqrt{d_\text{model}}$, and what is left after taking it off can be negative: such a
# pair fits *worse* than chance, as if the later head avoided what the earlier one writes.

# %% [markdown]
# ## 5 · Who reads whom
#
# Now put the pieces together for a whole model.
#
# ### Exercise: Who reads whom: the composition table
#
# *20 minutes · difficulty 2 of 3 · 4 points*
#
# For a two-layer model, compute all three scores of every head of layer 1 with every head of layer 0, and
# take off $1/\sqrt{d_\text{model}}$. The first axis is the kind, in the order Q, K, V; then the head that *reads*, of
# layer 1; then the head that *is read*, of layer 0. Weights of a model are (layer, head, …), so
# `model.W_V[0, 2]` belongs to head 2 of layer 0. You may call your functions from above. The three kinds
# earn points separately.


# %% answer
def composition_table(model):
    """How strongly each head of layer 1 reads each head of layer 0, above the random baseline.

    model: a two-layer model → (3, head of layer 1, head of layer 0), kinds in the order Q, K, V
    """
    ### BEGIN SOLUTION
    n_heads, d_model = model.W_Q.shape[1:3]
    table = torch.zeros(3, n_heads, n_heads, dtype=model.W_Q.dtype)
    for reader in range(n_heads):
        W_QK = model.W_Q[1, reader] @ model.W_K[1, reader].T
        W_OV = model.W_V[1, reader] @ model.W_O[1, reader]
        for read in range(n_heads):
            earlier = model.W_V[0, read] @ model.W_O[0, read]
            table[0, reader, read] = q_composition(earlier, W_QK)
            table[1, reader, read] = k_composition(earlier, W_QK)
            table[2, reader, read] = v_composition(earlier, W_OV)
    return table - d_model**-0.5
    ### END SOLUTION


# %% check
check(composition_table)

# %% [markdown]
# **What you showed.** A model of two layers with `head` heads each has 3 · head² numbers that sketch its
# wiring. Here is the sketch of a model that this course ships. It was trained on Python code, its
# documentation and English text, and nobody told its heads what to do. (The picture shows the scores noted on
# the model's card when it was made. Your own table must agree; try it in the cell after.)

# %%
cards = {name: models.card(name) for name in ("two-layer", "two-layer-curriculum")}
tables = {name: torch.tensor(card["figures"]["compositions"]) for name, card in cards.items()}

# %% demo
pictures.compositions(tables["two-layer"], title="Who reads whom in “two-layer”")

# %%
model = models.load("two-layer")
# mine = composition_table(model)
# print((mine - tables["two-layer"]).abs().max())

# %% [markdown]
# The same as a map: a curve for each reading above the threshold, dashed through Q, solid through K, dotted
# through V. Drag the threshold down until the weak readings appear, then pick a pair and look at the eigenvalues
# of the circuit that the two heads make together.

# %% demo
lab.composition_map(model)

# %% [markdown]
# How to read it. White is chance. Red is a pair that fits better than chance, blue one that fits worse.
# Here nearly all squares are white or blue: these pairs fit no better than chance, or avoid each other, and most
# heads of layer 1 are content with the embedding. If one square stands out in the K panel, you have probably found the two halves of an *induction head*, which notebook 05 is about.
# The earlier head tells each position which token came before it, and the later one looks for that.
#
# How far from chance is far? Random pairs of this shape scatter as your function says; the line below
# gives it in numbers: the spread of random pairs and the largest entry of the table.

# %% demo
g = torch.Generator().manual_seed(1)
shape = (300, model.d_model, model.d_head)
thin = [torch.randn(shape, generator=g) for _ in range(4)]
first, second = thin[0] @ thin[1].mT, thin[2] @ thin[3].mT
random_pairs = size(first @ second) / size(first) / size(second)
print(f"random pairs: {float(random_pairs.mean()):.4f} ± {float(random_pairs.std()):.4f}")
print(f"baseline:     {model.d_model**-0.5:.4f}")
print(f"largest entry above the baseline: {float(tables['two-layer'].max()):.4f}")

# %% [markdown]
# ## 6 · Cut one wire
#
# Weights say what *could* flow. To see what *does*, cut it. A head of layer 1 has three inputs. Let one of
# them read the embedding only, as if layer 0 had written nothing, and leave everything else alone: the
# other two inputs, layer 0 itself, and its own direct way to the unembedding. Then look at what the model
# has lost.
#
# ### Exercise: Knock one kind of composition out
#
# *25 minutes · difficulty 3 of 3 · 4 points*
#
# `kind` is `"Q"`, `"K"` or `"V"`. That input of *every* head of layer 1 reads the embedding; the other two read
# the stream after layer 0. Queries and keys have `W_pos` added in any case, values never. Return the logits.
# `model.run_with_cache(tokens)` gives the logits and a cache; `cache.stream[0]` is the embedding,
# `cache.stream[1]` the stream after layer 0. Layer 1 you compute yourself.


# %% answer
def knock_out_composition(tokens, model, kind):
    """Logits when one input of every layer-1 head reads the embedding only (W_pos kept).

    tokens (pos,), a two-layer model, kind "Q", "K" or "V" → (pos, d_vocab)
    """
    ### BEGIN SOLUTION
    _, cache = model.run_with_cache(tokens)
    embedding, stream = cache.stream[0], cache.stream[1]
    W_pos = model.W_pos[: len(tokens)]
    reads = {name: embedding if name == kind else stream for name in ("Q", "K", "V")}
    q = torch.einsum("pd,hde->hpe", reads["Q"] + W_pos, model.W_Q[1])
    k = torch.einsum("pd,hde->hpe", reads["K"] + W_pos, model.W_K[1])
    v = torch.einsum("pd,hde->hpe", reads["V"], model.W_V[1])
    scores = torch.einsum("hie,hje->hij", q, k) / q.shape[-1] ** 0.5
    visible = torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril()
    pattern = scores.where(visible, -torch.inf).softmax(dim=-1)
    written = torch.einsum("hij,hje,hed->id", pattern, v, model.W_O[1])
    return (stream + written) @ model.W_U
    ### END SOLUTION


# %% check
check(knock_out_composition)

# %% [markdown]
# **What you showed.** The three wires can be cut one by one, and each time the rest of the model runs on.
# A cut like this is called an *ablation* of a path. It is stronger evidence than a score, because it asks
# for the effect.
#
# Here is what the cuts cost the shipped models, in nats of loss on held-out text. Both have the same shape.
# `two-layer` saw natural text only. `two-layer-curriculum` first saw random tokens that repeat themselves,
# which is a strong training in induction.

# %% demo
rises = {
    name: [card["figures"]["loss_without"][k] - card["figures"]["terms"]["loss"] for k in "QKV"]
    for name, card in cards.items()
}
pictures.matrix(
    torch.tensor(list(rises.values())),
    rows=["natural text", "with curriculum"],
    columns=["Q cut", "K cut", "V cut"],
    axes=("trained on", "input that reads the embedding only"),
    title="What a cut costs: rise of the loss, in nats",
)

# %% [markdown]
# Keep these numbers in mind. In section 10 you will hold them against the tables of scores.
#
# **Try this.** Cut wires yourself, on a text of your own. Take the `#` away once your answer has passed.

# %%
text = "def area(width, height):\n    return width * height\n\n\ndef square(width):\n    return area(width, width)\n"
tokens = model.tokenizer.encode(text)


def loss(logits):
    return float(-logits[:-1].log_softmax(dim=-1).gather(1, tokens[1:, None]).mean())


print(f"the whole model: {loss(model(tokens)):.3f}")
# print({kind: round(loss(knock_out_composition(tokens, model, kind)), 3) for kind in "QKV"})

# %% [markdown]
# ## 7 · Virtual heads, and how many paths there are
#
# V-composition has a nice form. With frozen patterns, head 2 applied to the output of head 1 is again a
# head: it has a pattern, it has an OV circuit, and it moves information from source to destination by way
# of every position in between. You showed this in notebook 02 under the name of the mixed product. Here it
# is again in the language of composition; it takes two lines, and you will need it in a moment.
#
# ### Exercise: A virtual head
#
# *5 minutes · difficulty 1 of 3 · 1 point*
#
# Head 1 acts first. Return the pattern and the OV circuit of both in a row. Patterns and weights multiply
# in opposite orders, since patterns act from the left and weights from the right.


# %% answer
def virtual_head(pattern_1, W_OV_1, pattern_2, W_OV_2):
    """Two heads in a row as one head; head 1 acts first.

    pattern_1, pattern_2 (dst, src); W_OV_1, W_OV_2 (d_model, d_model)
    → tuple: pattern (dst, src), W_OV (d_model, d_model)
    """
    ### BEGIN SOLUTION
    # pattern_2 @ (pattern_1 @ x @ W_OV_1) @ W_OV_2
    pattern = torch.einsum("ij,jk->ik", pattern_2, pattern_1)
    W_OV = torch.einsum("ab,bc->ac", W_OV_1, W_OV_2)
    return pattern, W_OV
    ### END SOLUTION


# %% check
check(virtual_head)

# %% [markdown]
# A virtual head comes for free: no parameters of its own, only the combination of two real ones. And there
# are many of them, one for every pair of a head in layer 0 and a head in layer 1. With more layers there are
# triples, quadruples, and so on. A **path** is one way through the model: in each layer it goes either through
# one head or past all of them.

# %% demo
pictures.stream_diagram(
    [["head 0.0", "head 0.1"], ["head 1.0", "head 1.1"]],
    path=[(0, 1), (1, 0)],
    title="One path of order 2: head 0.1, then head 1.0",
)

# %% [markdown]
# ### Exercise: How many paths?
#
# *10 minutes · difficulty 1 of 3 · 2 points*
#
# Count the paths by their **order**, which is the number of heads on them. Return a list of `n_layers + 1`
# whole numbers: first the paths through no head (there is one, the direct path), then those through one
# head, and so on. All layers have `n_heads` heads. A good start is to multiply out
# $(1 + h)(1 + h)$ by hand. The numbers must be exact, also for deep models.


# %% answer
def count_paths(n_layers, n_heads):
    """How many paths go through 0, 1, …, n_layers heads.

    n_layers, n_heads: whole numbers → list of n_layers + 1 whole numbers, the direct path first
    """
    ### BEGIN SOLUTION
    counts = [1]  # with no layer there is only the direct path
    for _ in range(n_layers):
        past_the_layer = [*counts, 0]
        through_a_head = [0, *(n_heads * count for count in counts)]
        counts = [a + b for a, b in zip(past_the_layer, through_a_head, strict=True)]
    return counts
    ### END SOLUTION


# %% check
check(count_paths)

# %% [markdown]
# **What you showed.** For the paper's two layers of 12 heads there are 1 + 24 + 144 paths: more virtual heads
# than real ones. The number grows like a power of the number of layers. Large numbers, however, say nothing
# about importance. The paper measures that all 144 virtual heads of its model together matter little. Notebook
# 06 does the same for ours.
#
# **Question.** A virtual head costs no parameters. Why would a model not do everything by virtual heads?
#
# <details><summary>Answer</summary>
#
# Because they are not free to choose. The pattern of a virtual head is the product of two patterns which both
# have other jobs, and the same holds for its OV circuit. Twelve by twelve pairs share twenty-four sets of weights. And
# everything passes two keyholes of `d_head` dimensions, one after the other, so little survives unless both were
# made for each other.
#
# </details>

# %% [markdown]
# ## 8 · A two-layer model is a sum of paths
#
# Now the full expansion. Run the model once, keep the patterns, and multiply out
#
# $$ \text{logits} = x_0\,\Bigl(1 + \sum_{h} \text{head}^{0h}\Bigr)\Bigl(1 + \sum_{g} \text{head}^{1g}\Bigr)\, W_U , $$
#
# where a head stands for $x \mapsto A\,x\,W_{OV}$ with its frozen $A$. Three groups of terms come out:
#
# | terms | formula | how many |
# |---|---|---|
# | direct | $x_0\, W_U$ | 1 |
# | single heads | $A^{\ell h}\, x_0\, W_{OV}^{\ell h}\, W_U$ | 2 · head |
# | virtual heads | $A^{1g} A^{0h}\, x_0\, W_{OV}^{0h} W_{OV}^{1g}\, W_U$ | head² |
#
# Note what "single head" means for layer 1: the head applied to the **embedding**, not to the stream that it
# really reads. What it makes of layer 0's output is in the virtual terms. Each thing is counted once.
#
# ### Exercise: A two-layer model is a sum of paths
#
# *30 minutes · difficulty 3 of 3 · 5 points*
#
# Return the three groups as a tuple, all as logits. For the virtual heads the first axis is the head of layer 1, the
# second the head of layer 0. Use the patterns of the full run for everything, also for layer 1. You can check
# yourself: all terms must sum to `model(tokens)`. The three groups earn points separately.


# %% answer
def two_layer_paths(tokens, model):
    """All terms of a two-layer model's logits, patterns frozen at those of the full run.

    tokens (pos,), a two-layer model → tuple:
    direct (pos, d_vocab); heads (layer, head, pos, d_vocab), both layers reading the embedding only;
    virtual (head of layer 1, head of layer 0, pos, d_vocab)
    """
    ### BEGIN SOLUTION
    _, cache = model.run_with_cache(tokens)
    A, x = cache.pattern, cache.stream[0]
    W_OV = model.W_V @ model.W_O  # (layer, head, d_model, d_model)
    alone = A @ x @ W_OV  # (layer, head, pos, d_model): each head on the embedding
    virtual = A[1][:, None] @ alone[0] @ W_OV[1][:, None]  # (reader, read, pos, d_model)
    return x @ model.W_U, alone @ model.W_U, virtual @ model.W_U
    ### END SOLUTION


# %% check
check(two_layer_paths)

# %% [markdown]
# **What you showed.** With frozen patterns, a two-layer model is *exactly* a sum of 1 + 2 · head + head² simple
# terms, each a product of matrices. No approximation was made. What the sum does not explain are the patterns
# themselves. They are the next section.
#
# **Try this.** Which term says most at the last position of the text above? Take the `#` away once your answer has
# passed.

# %%
# direct, heads, virtual = two_layer_paths(tokens, model)
# whole = direct + heads.sum(dim=(0, 1)) + virtual.sum(dim=(0, 1))
# print("sums to the logits:", torch.allclose(whole, model(tokens), atol=1e-3))
# for name, term in {"direct": direct, "heads": heads, "virtual": virtual}.items():
#     print(name, (term[..., -1, :] - term[..., -1, :].mean(-1, keepdim=True)).norm(dim=-1))

# %% [markdown]
# ## 9 · Attention scores are a sum of paths, too
#
# Patterns cannot be taken apart, because of the softmax. But the *scores* before it can. A score is bilinear:
# a destination's query and a source's key both depend linearly on what they read. Each side reads a sum,
# the embedding with positions plus what each head of layer 0 wrote:
#
# $$ \text{score} = \frac{1}{\sqrt{d_\text{head}}} \Bigl(b_i + \sum_{h} r_i^{h}\Bigr)\, W_{QK}\, \Bigl(b_j + \sum_{h'} r_j^{h'}\Bigr)^T, \qquad b = x_0 + W_\text{pos}, \quad r^h = A^{0h} x_0 W_{OV}^{0h} $$
#
# Multiply out, and there are four groups of terms:
#
# | group | destination reads | source reads | how many terms |
# |---|---|---|---|
# | direct | embedding | embedding | 1 |
# | Q only | a head of layer 0 | embedding | head |
# | K only | embedding | a head of layer 0 | head |
# | both | a head of layer 0 | a head of layer 0 | head² |
#
# Together these are $1 + 2H + H^2 = (1 + H)^2$ terms. The paper writes the same sum with tensor products
# of three factors: one for the destination's position, one for the source's, one for the weights. A head on one side only
# has an $A$ there and an identity on the other.
#
# ### Exercise: A layer-1 head's scores as a sum of paths
#
# *20 minutes · difficulty 3 of 3 · 4 points*
#
# For one head of layer 1, return the sums of the four groups, in the order of the table. The composed side is the sum
# of layer 0's head outputs (`cache.head_out[0]` holds them, one a head), *without* `W_pos`; positions belong to
# the embedding's part. Divide by $\sqrt{d_\text{head}}$, don't mask. The four must sum to the model's scores
# (`cache.scores[1, head]`). Each of the four earns its part of the points.


# %% answer
def attention_score_paths(tokens, model, head):
    """A layer-1 head's scores, split by which side reads what layer 0 wrote.

    tokens (pos,), a two-layer model, head: a head of layer 1
    → (4, dst, src): direct, Q only, K only, both; divided by sqrt(d_head), before the mask
    """
    ### BEGIN SOLUTION
    _, cache = model.run_with_cache(tokens)
    base = cache.stream[0] + model.W_pos[: len(tokens)]
    composed = cache.head_out[0].sum(dim=0)
    parts = torch.stack([base, composed])
    q = parts @ model.W_Q[1, head]  # (part of the destination's side, dst, d_head)
    k = parts @ model.W_K[1, head]
    tables = torch.einsum("aie,bje->baij", q, k) / q.shape[-1] ** 0.5
    # With the key's part as the outer axis the order is: direct, Q only, K only, both.
    return tables.flatten(0, 1)
    ### END SOLUTION


# %% check
check(attention_score_paths)

# %% [markdown]
# **What you showed.** The question "why does this head look there?" has an exact answer in four parts. And each
# part can be split further, head by head. Here is a text that makes a model with induction look back: forty
# different random tokens, then the same forty again. At the second copy of a token, the useful place to look is
# the token *after* its first copy. For each of the $(1 + H)^2$ terms, the picture shows how much it raises the
# score of that place above the average place in the first copy.

# %%
name = "two-layer"  # or "two-layer-curriculum"
model, table = models.load(name), tables[name]
kind, reader, read = (int(i) for i in torch.unravel_index(table.argmax(), table.shape))
print(f"{name}: head 1.{reader} reads head 0.{read} most, by its {'QKV'[kind]} input")

# %% demo
once = torch.randperm(model.d_vocab - 64, generator=torch.Generator().manual_seed(0))[:40] + 64
_, cache = model.run_with_cache(torch.cat([once, once]))
parts = torch.cat([model.qk_input(cache.stream[0])[None], cache.head_out[0]])
q, k = parts @ model.W_Q[1, reader], parts @ model.W_K[1, reader]
terms = torch.einsum("aie,bje->abij", q, k) / model.d_head**0.5  # (dst part, src part, dst, src)
here = torch.arange(42, 78)  # in the second copy
lift = terms[:, :, here, here - 39].mean(dim=-1) - terms[:, :, here, :40].mean(dim=(-1, -2))
sides = ["embedding", *(f"head 0.{h}" for h in range(model.n_heads))]
pictures.matrix(
    lift,
    rows=sides,
    columns=sides,
    axes=("the destination reads", "the source reads"),
    title=f"Why head 1.{reader} of “{name}” looks where it does",
    digits=1,
)

# %% [markdown]
# The first row is "K only" (and the direct term in its corner), the first column is "Q only", the rest is "both". In
# `two-layer` expect one dark square in the first row: the destination asks by its plain token, the source answers by what
# *one* head of layer 0 brought to it. This is K-composition caught in the act, and the head should be the one
# that the composition table names. The pair's patterns on the first twelve of these tokens, twice, show what they do: the earlier head
# looks one step back, the later one looks at the token after the earlier copy.

# %% demo
short = once[:12].repeat(2)  # a short text, to have room for both copies
_, seen = model.run_with_cache(short)
pictures.patterns(
    torch.stack([seen.pattern[0, read], seen.pattern[1, reader]]),
    titles=[f"head 0.{read}, read", f"head 1.{reader}, reading"],
    columns=2,
)

# %% [markdown]
# The second copy begins at position 12. From there on the later head shows a second line, parallel to the diagonal and
# eleven steps below it: one step after the earlier copy of each token. In `two-layer` the line has gaps, because this
# model meets random tokens for the first time. In the first copy, where nothing can repeat yet, it rests on the first
# token or looks here and there.
#
# **Try this.** Set `name` to `"two-layer-curriculum"` and run the three cells again. This model was trained on such texts.
# Its line is sharp, but the table of terms has another shape: the largest term is one of "both". Which head of layer 0
# does the *destination* read there? The picture below says where the heads of layer 0 of that model look.

# %% demo
schooled = models.load("two-layer-curriculum")
texts = torch.cat([models.sample_tokens(kind)[:512].reshape(-1, 128) for kind in ("code", "docs")])
looks = schooled.run_with_cache(texts)[1].pattern[0].mean(dim=0)  # (head, dst, src)
pictures.matrix(
    torch.stack([looks.diagonal(-d, 1, 2).mean(dim=1) for d in range(4)], dim=1),
    rows=[f"head 0.{h}" for h in range(schooled.n_heads)],
    columns=["itself", "1 back", "2 back", "3 back"],
    axes=("layer 0", "average attention"),
    title="Layer 0 of “two-layer-curriculum”",
    diverging=False,
)

# %% [markdown]
# **Question.** One head of layer 0 attends to its own position and to nothing else. Heads of layer 1 read it, by the scores.
# Does it bring them any information from elsewhere?
#
# <details><summary>Answer</summary>
#
# No. A head whose pattern is the identity moves nothing: it adds $x\,W_{OV}$ to each position, a function of the token that
# stands there. It is a *second embedding*, written into directions where layer 1 likes to read. So "the destination reads head
# 0.3" means here "the destination reads its own token, by way of 0.3". The source's side reads the previous-token head, as in
# the other model. In the end both models do the same thing, and only one of them seems to use Q-composition. A composition score can't
# tell a head that moves information from one that rewrites it in place, because it never looks at a pattern.
#
# </details>

# %% [markdown]
# ## 10 · What composition scores do not tell
#
# Composition scores are quick, and they need no data. That is also their weakness. Compare both models: their
# tables, and what the cuts of section 6 cost.

# %% demo
pictures.compositions(
    tables["two-layer-curriculum"], title="Who reads whom in “two-layer-curriculum”"
)

# %% demo
for shipped, scores in tables.items():
    by_score = scores.flatten(1).amax(dim=1)
    print(shipped)
    print(
        "  highest score above chance:",
        *(f"{k} {float(s):+.3f} " for k, s in zip("QKV", by_score, strict=True)),
    )
    print(
        "  loss when it is cut:       ",
        *(f"{k} {r:+.3f} " for k, r in zip("QKV", rises[shipped], strict=True)),
    )

# %% [markdown]
# Is the kind with the highest scores also the one whose cut costs most? Look at V in particular: a kind can score *below*
# chance for every pair, and its cut can still cost more than all others. So a score is a hint where to look, not a
# measure of importance. There are good reasons for that:
#
# - **The data is missing.** A score weighs all directions that the earlier head could write, whether or not any text
#   makes it write them.
# - **The size is missing.** A ratio forgets how loud the heads are. A faint pair with a perfect fit scores 1.
# - **A sum of squares is led by the largest directions.** One strong direction that is not read hides ten weak ones
#   that are.
# - **The pattern is missing.** A head that only ever looks at its own token can be read, and brings nothing new.
# - **The rest of the path is missing.** Real models have LayerNorm, MLPs and biases in between.
# - **The baseline is a choice.** See section 4: full or thin, mean or spread.
#
# The first reason can be made as strong as you like. In the toy below, head 1 writes one direction very loudly, but only for an
# input that never occurs, and another one softly, for all inputs that do. Two later heads read one direction each.

# %% demo
one = torch.eye(8)
W_OV_1 = 10 * torch.outer(one[0], one[4]) + torch.outer(one[1], one[5])
readers = {
    "reads the loud one": torch.outer(one[4], one[7]),
    "reads the soft one": torch.outer(one[5], one[7]),
}
x = torch.randn(100, 8, generator=torch.Generator().manual_seed(0))
x[:, 0] = 0  # what the loud direction would need never occurs
for label, W_OV_2 in readers.items():
    score = (W_OV_1 @ W_OV_2).norm() / (W_OV_1.norm() * W_OV_2.norm())
    effect = (x @ W_OV_1 @ W_OV_2).norm() / (x @ W_OV_1).norm()
    print(
        f"{label}: score {float(score):.2f}, share of what head 1 really writes: {float(effect):.2f}"
    )

# %% [markdown]
# The score and the truth are nearly opposite.
#
# **What others say.** How to measure composition is disputed. Lieberum's
# [thoughts on formalizing composition](https://www.lesswrong.com/posts/vaHxk9jSfmGbzvztT/thoughts-on-formalizing-composition)
# asks what the score should mean, and proposes alternatives. Snell studies
# [the mathematics of composition](https://willsnell.com/posts/math_composition). A later comparison,
# [the projection kernel](https://arxiv.org/abs/2601.10266), finds known links between the heads of a circuit more clearly with
# a measure that compares subspaces and ignores how strongly each direction is used. And remember the erratum: the text of the
# paper still says that K-composition with one head is the only significant one, and the corrected figure shows more.
#
# What to do? Use scores to find candidates, as you did with the table. Then cut the wire, or take the attention scores
# apart, on real text. That is evidence.

# %% [markdown]
# ## 11 · Somebody else's claim
#
# ### Question: What a composition score says
#
# *12 minutes · 2 points, marked by a person*
#
# Somebody reports: "In our two-layer model, head 1.3 has a K-composition of 0.20 with head 0.5, and the mean of 20 random
# full-rank matrices is 0.11. So head 1.3 is an induction head that uses 0.5 as its previous-token head."
# Write four or five sentences: what of this do you believe, and what would you still want to see?
#
# Write your answer into the next cell: double-click it, replace the words that stand there, press Shift+Enter.
# No program judges it. In a class a person does. Alone, mark it yourself by `solution("what_a_composition_score_says")`.

# %% question [markdown] name="what_a_composition_score_says" points=2
# ### BEGIN SOLUTION
# **A good answer** has most of this. The score is above the baseline, but the *spread* is unknown: full-rank matrices scatter
# far less than thin heads, so thin random heads of the same shape should be drawn. A baseline of 0.11 means a `d_model`
# of about 83; if that is not their width, the baseline was made with another size. Composition says that 1.3 *can* read 0.5
# by its keys, not what it reads: that 0.5 attends to the previous token must be seen in its pattern. An induction head must
# also match (the same token on both sides) and copy (a positive OV circuit). And the effect is missing: cut K-composition, or
# that one pair, and look whether repeated text gets worse.
#
# **Marking guide**
#
# - **1 point**: doubts the baseline for a good reason (its spread, full against thin matrices, the width that 0.11 implies).
# - **1 point**: says that a score shows what *could* be read, and asks for at least two of these: the pattern of 0.5, prefix
#   matching, copying, the effect of a cut.
# ### END SOLUTION

# %% [markdown]
# ## What you have shown
#
# | the paper says | you built |
# |---|---|
# | Heads compose in three ways: through queries, keys and values. | `q_composition`, `k_composition`, `v_composition` |
# | Low-rank products can be handled by their factors; a norm is not cyclic (the erratum). | `low_rank_frobenius` |
# | Scores are compared with random matrices of the same shapes. | `random_composition`, `composition_table` |
# | Q- and K-composition change where a head looks, V-composition makes virtual heads. | `knock_out_composition`, `virtual_head` |
# | A two-layer model has 1 + 2H + H² terms in its logits … | `count_paths`, `two_layer_paths` |
# | … and 1 + 2H + H² terms in the scores of each layer-1 head. | `attention_score_paths` |
#
# Three things to remember. A cyclic turn is for traces and eigenvalues, never for norms. A score without its baseline and its spread
# says nothing. And a score is about what could be read; a cut shows what is.
#
# **Next:** [05 · induction heads](../05-induction-heads/05-induction-heads.ipynb) follows the strongest of these pairs to the end. A head that tells every position what came before it,
# and a head that looks for it: an induction head. No one-layer model of the kind in notebook 03 learns to do what it does.

# %%
progress()
