# %% [markdown]
# # 02 · Attention heads: where to look, what to copy
#
# In notebook 01 every token was on its own. A zero-layer model sees one token and guesses the next;
# nothing that came earlier can matter. **Attention heads** change that. They are the only part of a
# transformer that carries information from one position to another.
#
# **After this notebook you can**
#
# - compute a head step by step: scores, pattern, output;
# - say which half of a head decides *where* it looks and which half decides *what* it copies;
# - show that the heads of a layer do not mix, they add;
# - read the paper's notation $A \otimes W$, and multiply two heads into one;
# - say which numbers inside a head mean something and which are an accident of bookkeeping.
#
# **Time:** about three hours, in pieces if you like. **It builds on**
# [00 · the residual stream](../00-residual-stream/00-residual-stream.ipynb) and
# [01 · zero layers](../01-zero-layer/01-zero-layer.ipynb). In the
# [paper](https://transformer-circuits.pub/2021/framework/index.html) you are in the sections
# "Attention Heads are Independent and Additive" and "Attention Heads as Information Movement".
#
# As before: `check(name)` judges your function, `hint(name)` gives one hint at a time, and
# `solution(name)` shows our way once you have passed.

# %%
import torch

from grader import check, hint, lab, models, progress, solution
from grader.lab import pictures
from grader.transformer import Transformer

words = ["The", " cat", " saw", " the", " dog", ",", " then", " it", " ran"]

# %% [markdown]
# ## 1 · A head moves information
#
# The residual stream holds one vector for each position. The embedding fills it, the unembedding
# reads it, and both work at every position by itself. If nothing else happened, the vector at
# position 7 could never hear of the word at position 3.
#
# A head is a carrier. For each position (the **destination**) it looks back at the positions so far
# (the **sources**), takes something from each, and adds the result to the destination's vector. The
# picture shows one head at work on nine tokens. Thick lines mean much attention. One destination is
# picked out; the numbers below are the shares it takes from each source.

# %% demo
sees = torch.tensor([0.5, 2.5, 1.0, 0.5, 3.5, 0.0, 0.5, 1.0, 1.0])  # the nouns draw attention
shares = sees.expand(9, 9).masked_fill(torch.ones(9, 9).triu(1).bool(), -torch.inf).softmax(dim=-1)
pictures.attention_flow(
    shares, words, destination=7, title="A head that looks back at nouns, as seen from “it”"
)

# %% [markdown]
# Lines run upward from earlier or equal positions only. A language model predicts the next token, so
# a destination must not see what comes after it.
#
# So a head answers two questions, and the main idea of this notebook is that it answers them
# **separately**:
#
# 1. **Where does the information come from?** The *pattern* $A$ says how much each destination takes
#    from each source. It is made from queries and keys, by the weights $W_Q$ and $W_K$.
# 2. **What is carried over?** The *value* says what a source gives if it is looked at, and $W_O$ says
#    where that ends up in the stream. This takes the weights $W_V$ and $W_O$.

# %% demo
pictures.head_diagram("One head: two sides that meet in one place")

# %% [markdown]
# Read the picture from left to right. The blue side ends in a single thing, the pattern $A$, a table
# of shares. The orange side knows nothing about how $A$ came about. Blue never sees a value, orange
# never sees a query. They meet once, where values are mixed.
#
# | name | shape | meaning |
# |---|---|---|
# | `x` | (pos, d_model) | the residual stream, one row a position |
# | `W_Q`, `W_K`, `W_V` | (d_model, d_head) | what one head reads, for its queries, keys and values |
# | `W_O` | (d_head, d_model) | how one head writes |
# | `pattern` | (dst, src) | attention; every row sums to 1 |
#
# `d_head` is much smaller than `d_model`: often 64 against 768. A head looks at the stream through a
# keyhole. This will matter.

# %% [markdown]
# ## 2 · Where to look: scores
#
# Each destination asks a question, its **query** $q_i = x_i W_Q$. Each source offers a label, its
# **key** $k_j = x_j W_K$. Both are vectors with `d_head` entries. How well they fit is their dot
# product, and that is the score:
#
# $$ s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_\text{head}}} $$
#
# Why the square root? A dot product of two random vectors is a sum of `d_head` terms. The more terms,
# the farther from 0 the sum lands: its typical size grows like $\sqrt{d_\text{head}}$. The division
# takes this growth out, so that a head with 64 dimensions and one with 128 start out equally sharp.

# %% demo
dims = [4, 16, 64, 256, 1024]
g = torch.Generator().manual_seed(0)
pairs = [torch.randn(2, 2000, d, generator=g) for d in dims]
size = torch.stack([(q * k).sum(dim=-1).std() for q, k in pairs])
pictures.lines(
    {"q · k": size, "q · k / √d_head": size / torch.tensor(dims).sqrt()},
    x=dims,
    log_x=True,
    x_label="d_head",
    y_label="typical size of a score",
    title="Random queries and keys: what the division takes out",
)

# %% [markdown]
# Note that the paper leaves the division out of its formulas. It writes the score as
# $x^T W_Q^T W_K\, x$ (for column vectors). The scale changes how sharp a head is, never which source
# it prefers. In this course a *score* is divided; the *circuits* of section 6 are not.
#
# ### Exercise: Attention scores of one head
#
# *8 minutes · difficulty 1 of 3 · 2 points*
#
# Compute the scores of every destination with every source. The destinations and the sources come as
# two separate arguments, `x_dst` and `x_src`, of different lengths. In a plain layer they are the same
# array. But nothing forces them to be: in notebook 04 you will feed the two sides different parts of
# the stream, and see which part a head reacts to. No mask, no positions, no softmax yet.


# %% answer
def attention_scores(x_dst, x_src, W_Q, W_K):
    """How well each destination's query fits each source's key, divided by sqrt(d_head).

    x_dst (dst, d_model), x_src (src, d_model); W_Q, W_K (d_model, d_head) of one head
    → (dst, src)
    """
    ### BEGIN SOLUTION
    queries = torch.einsum("id,dh->ih", x_dst, W_Q)  # (dst, d_head)
    keys = torch.einsum("jd,dh->jh", x_src, W_K)  # (src, d_head)
    d_head = W_Q.shape[1]
    return torch.einsum("ih,jh->ij", queries, keys) / d_head**0.5
    ### END SOLUTION


# %% check
check(attention_scores)

# %% [markdown]
# **What you showed.** A score is *bilinear*: double a destination's vector and its row of scores
# doubles; add two source vectors and their scores add. All the complicated behavior of a head comes
# from two linear maps and one dot product. The next step is the only one that is not linear.

# %% [markdown]
# ## 3 · From scores to a pattern
#
# Scores can be any number. A pattern must be a way to share out: no entry negative, each row summing
# to 1, nothing on the future. The softmax does the sharing:
#
# $$ A_{ij} = \frac{e^{s_{ij}}}{\sum_{j' \le i} e^{s_{ij'}}} \quad\text{for } j \le i, \qquad A_{ij} = 0 \text{ for } j > i $$
#
# The sum runs over the sources that destination $i$ may see, which are $0 \dots i$. In code one takes
# the future out of the race *before* the sharing, by giving it a score that no real score can reach.

# %% demo
g = torch.Generator().manual_seed(4)
scores = 1.5 * torch.randn(6, 6, generator=g)
masked = scores.masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
pictures.matrices(
    {"scores": scores, "future masked": masked, "pattern": masked.softmax(dim=-1)},
    axes=("destination", "source"),
    labels=words[:6],
)

# %% [markdown]
# Look at the first row of the pattern. The first token has a single place to look: itself. Look at
# the last row: it may look anywhere, so its mask changes nothing.
#
# ### Exercise: From scores to a causal pattern
#
# *12 minutes · difficulty 2 of 3 · 3 points*
#
# The scores come in already divided. Any number of axes may stand in front of the last two (heads,
# batches), and the last two are always (dst, src), of equal size. Return a new array of the same
# shape. Watch for scores that are far from 0: they do occur, in trained models too, and your pattern
# should hold there as well.


# %% answer
def causal_pattern(scores):
    """Attention: softmax over the sources that are not in the future.

    scores (..., pos, pos), rows are destinations, already divided by sqrt(d_head)
    → the same shape, rows sum to 1
    """
    ### BEGIN SOLUTION
    visible = torch.ones_like(scores, dtype=torch.bool).tril()
    scores = torch.where(visible, scores, -torch.inf)
    # Taking a row's maximum off changes nothing in its shares and keeps exp() in range.
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return weights / weights.sum(dim=-1, keepdim=True)
    ### END SOLUTION


# %% check
check(causal_pattern)

# %% [markdown]
# **What you showed.** The mask is not a detail. It is what makes the model honest: at every
# position at once it must predict the next token without having seen it.
#
# **Try this.** A common slip is to give the future the score 0 instead of −∞. Change the number in
# the first line and watch how much attention the first row wastes on tokens it must not see. Which
# numbers are low enough? Does the answer depend on the other scores?

# %%
hidden_score = 0.0
some_scores = 1.5 * torch.randn(6, 6, generator=torch.Generator().manual_seed(4))
future = torch.ones(6, 6).triu(1).bool()
leaky = some_scores.masked_fill(future, hidden_score).softmax(dim=-1)
pictures.pattern(leaky, words[:6], title=f"Future scored {hidden_score}", numbers=True)

# %% [markdown]
# **Question.** A head often has nothing useful to do at some position. But the row of its
# pattern must sum to 1: it cannot look nowhere. What could a trained head do there?
#
# <details><summary>Answer</summary>
#
# It needs a resting place: a source that it can always look at and whose value is close to zero, so
# that looking there adds nothing. Trained models often use the first position for this, because every
# destination can see it. So a bright first column in a pattern usually does not mean that the first
# token is important. It means "nothing here". Notebook 06 weighs patterns by the size of the values
# to tell the two apart.
#
# </details>

# %% [markdown]
# ## 4 · What to copy: the output
#
# Now the other side. A source's **value** is $v_j = x_j W_V$, with `d_head` entries. Each destination
# takes a weighted mean of the values, with its row of the pattern as weights. The result is called
# $z_i$. It still lives in the head's own small space; $W_O$ writes it into the stream:
#
# $$ z_i = \sum_j A_{ij}\, x_j W_V, \qquad \text{output}_i = z_i W_O, \qquad\text{or all at once:}\quad A\, x\, W_V W_O $$
#
# The last form is worth a long look. The pattern stands on the **left** of $x$ and mixes rows, which
# are positions. The weights stand on the **right** and mix columns, which are directions of the
# stream. Left and right never get in each other's way: you may mix first and project later, or the
# other way round.
#
# ### Exercise: What one head adds to the stream
#
# *8 minutes · difficulty 1 of 3 · 2 points*
#
# Given the stream and a finished pattern, compute what the head adds. The stream itself is not part of
# it: it goes on beside the head and the two are added later.


# %% answer
def head_output(x, pattern, W_V, W_O):
    """What one head adds to the stream; the stream itself is not included.

    x (pos, d_model), pattern (dst, src) with dst and src equal to pos,
    W_V (d_model, d_head), W_O (d_head, d_model)
    → (pos, d_model)
    """
    ### BEGIN SOLUTION
    values = x @ W_V  # (src, d_head): what each source would give
    gathered = pattern @ values  # (dst, d_head): what each destination takes
    return gathered @ W_O  # (dst, d_model): written into the stream
    ### END SOLUTION


# %% check
check(head_output)

# %% [markdown]
# **What you showed.** With the pattern given, everything else about a head is a product of
# matrices. Nothing in it depends on *why* the head looks where it looks.
#
# **Question.** Suppose all positions hold the very same vector. What does the head add at each
# destination, whatever its pattern is?
#
# <details><summary>Answer</summary>
#
# The same everywhere: $x\,W_V W_O$. A weighted mean of equal vectors is that vector, because the
# weights sum to 1. The same argument shows why a bias on the values needs no attention: it arrives at
# every destination unchanged, so it can be moved out of the head (notebook 07 does it).
#
# </details>
#
# ### Freeze the pattern, and a head is linear
#
# The softmax is the only step that is not linear. So run the model once, write the pattern down, and
# from then on *keep* it, whatever $x$ you put in. Frozen in this way, a head is a linear map: what it
# makes of a sum is the sum of what it makes of the parts. If the pattern is computed anew for every
# input, that fails.

# %% demo
g = torch.Generator().manual_seed(2)
weights = [torch.randn(16, 4, generator=g) / 4 for _ in range(3)]
W_Q, W_K, W_V, W_O = *weights, torch.randn(4, 16, generator=g) / 2
a, b = torch.randn(2, 8, 16, generator=g)
hide = torch.ones(8, 8).triu(1).bool()


def look(x):
    return (x @ W_Q @ W_K.T @ x.T / 2).masked_fill(hide, -torch.inf).softmax(dim=-1)


frozen = look(a + b)
whole = frozen @ (a + b) @ W_V @ W_O
parts_frozen = frozen @ a @ W_V @ W_O + frozen @ b @ W_V @ W_O
parts_anew = look(a) @ a @ W_V @ W_O + look(b) @ b @ W_V @ W_O
pictures.bars(
    torch.stack([(whole - parts).norm() / whole.norm() for parts in (parts_frozen, parts_anew)]),
    ["frozen", "anew"],
    x_label="pattern",
    y_label="relative error",
    title="Is f(a + b) = f(a) + f(b)?",
)

# %% [markdown]
# The whole paper stands on this trick. The stream is a sum (notebook 00). With frozen patterns every
# head is linear, so it acts on each part of the sum by itself, and a model falls apart into a sum of
# paths. Keep the price in mind: a frozen pattern tells you what a head did **with this text**, not why
# it looked there. The *why* is the QK side, and it is treated apart.

# %% [markdown]
# ## 5 · Heads do not mix, they add
#
# A layer has many heads. They all read the same stream, at the same time, and none of them sees what
# another one does. Each writes its own term, and the stream takes the sum:

# %% demo
pictures.stream_diagram(
    [["head 0.0", "head 0.1", "head 0.2"]], title="One layer, three heads, one sum"
)

# %% [markdown]
# $$ x_\text{after} = x + \sum_h A^h\, x\, W_V^h W_O^h $$
#
# The weights of a layer come stacked, with the head axis in front: `W_Q` is (head, d_model, d_head),
# `W_O` is (head, d_head, d_model).
#
# ### Exercise: A layer of heads, one term each
#
# *20 minutes · difficulty 2 of 3 · 4 points*
#
# Put the pieces together for a whole layer: for each head the scores of `x` with itself, the causal
# pattern, the output. Keep the heads apart, one term each, and don't add the stream. Having the terms
# apart is what lets us study them one at a time. You may call the functions you wrote above. (If this
# check fails, look first at whether theirs passed.)


# %% answer
def attention_layer(x, W_Q, W_K, W_V, W_O):
    """One layer of causal attention, each head's term by itself, the stream not added.

    x (pos, d_model), used as it is for queries, keys and values;
    W_Q, W_K, W_V (head, d_model, d_head), W_O (head, d_head, d_model)
    → (head, pos, d_model)
    """
    ### BEGIN SOLUTION
    terms = []
    for q, k, v, o in zip(W_Q, W_K, W_V, W_O, strict=True):
        pattern = causal_pattern(attention_scores(x, x, q, k))
        terms.append(head_output(x, pattern, v, o))
    return torch.stack(terms)
    ### END SOLUTION


# %% check
check(attention_layer)

# %% [markdown]
# **What you showed.** This is a complete attention layer, the same mathematics as in the largest
# models. Sum over the first axis, add `x`, and you have the next stream.
#
# ### But libraries concatenate?
#
# Most code and many drawings show something else. There the $z$ of all heads are laid side by side
# into one long row, and one large matrix multiplies it. That looks as if the large matrix could mix
# the heads. It cannot, and the reason is how a long row meets a tall matrix:

# %% demo
g = torch.Generator().manual_seed(1)
z_rows, tall = torch.randn(2, 3, 2, generator=g), torch.randn(4, 5, generator=g)
pictures.matrices(
    {
        "z of both, side by side": torch.cat(list(z_rows), dim=-1),
        "W_O of both, stacked": tall,
        "what both heads add": torch.cat(list(z_rows), dim=-1) @ tall,
    },
    axes={
        "z of both, side by side": ("position", "head, d_head"),
        "W_O of both, stacked": ("head, d_head", "d_model"),
        "what both heads add": ("position", "d_model"),
    },
)

# %% [markdown]
# The first two columns on the left only ever meet the first two rows of the tall matrix, and the last
# two columns only the last two rows. Each half of the row meets its own half of the matrix, and the
# results are added.
#
# ### Exercise: Concatenating heads is adding them
#
# *10 minutes · difficulty 2 of 3 · 2 points*
#
# Compute the output of a layer in both forms. First: all heads' `z` side by side, times all heads'
# `W_O` stacked. Second: one product a head, then the sum over heads. Return the two as a tuple; each
# is judged by itself. Mind the order of axes in the first form. `reshape` reads an array row by row
# and never moves an axis.


# %% answer
def concat_equals_sum(z, W_O):
    """A layer's output in two forms: heads concatenated, and heads summed.

    z (head, pos, d_head), W_O (head, d_head, d_model)
    → tuple of two (pos, d_model): the concatenated form, the summed form
    """
    ### BEGIN SOLUTION
    side_by_side = torch.cat(list(z), dim=-1)  # (pos, head · d_head)
    stacked = torch.cat(list(W_O), dim=0)  # (head · d_head, d_model)
    summed = sum(z_of_head @ W_of_head for z_of_head, W_of_head in zip(z, W_O, strict=True))
    return side_by_side @ stacked, summed
    ### END SOLUTION


# %% check
check(concat_equals_sum)

# %% [markdown]
# **What you showed.** Concatenation is a way to compute fast, not a way to think. A layer with 12
# heads is 12 independent pieces. From now on we study one head at a time and lose nothing.

# %% [markdown]
# ## 6 · Four weights, two circuits
#
# Put the definition of queries and keys into the score, and look at which weights end up side by side:
#
# $$ q_i \cdot k_j = (x_i W_Q)(x_j W_K)^T = x_i\, \underbrace{W_Q W_K^T}_{W_{QK}}\, x_j^T
# \qquad\qquad \text{output} = A\, x\, \underbrace{W_V W_O}_{W_{OV}} $$
#
# $W_Q$ and $W_K$ never appear without each other. Neither do $W_V$ and $W_O$. So a head is really two
# matrices of shape (d_model, d_model), and each answers one of our two questions:
#
# - **$W_{QK}$, the QK circuit**: its entries say which direction at the destination is drawn to which
#   direction at the source. *Where.*
# - **$W_{OV}$, the OV circuit**: its rows say what a direction at the source turns into at the
#   destination, if it is looked at. *What.*
#
# ### Exercise: The QK circuit
#
# *5 minutes · difficulty 1 of 3 · 1 point*
#
# Return $W_{QK}$ of one head, with the query side in the rows. It is not divided by anything: a circuit
# is the plain product, as in the paper.


# %% answer
def qk_circuit(W_Q, W_K):
    """The matrix that stands between two stream vectors in a score; rows are the query side.

    W_Q, W_K (d_model, d_head) of one head → (d_model, d_model), not divided
    """
    ### BEGIN SOLUTION
    return W_Q @ W_K.T
    ### END SOLUTION


# %% check
check(qk_circuit)

# %% [markdown]
# ### Exercise: The OV circuit
#
# *5 minutes · difficulty 1 of 3 · 1 point*
#
# Return $W_{OV}$ of one head. It takes a source's stream vector, a row, and gives what that vector adds
# to a destination that looks at nothing else. Mind the order: a row vector meets the weights from left
# to right.


# %% answer
def ov_circuit(W_V, W_O):
    """What a source vector turns into where it is looked at: reads rows, writes columns.

    W_V (d_model, d_head), W_O (d_head, d_model) of one head → (d_model, d_model)
    """
    ### BEGIN SOLUTION
    return W_V @ W_O
    ### END SOLUTION


# %% check
check(ov_circuit)

# %% [markdown]
# **What you showed.** Queries, keys and values are only stations on the way. What a head *does* is
# in two products. Two heads with the same two products are the same head.
#
# **The paper writes columns.** This is the place where the two conventions differ, so here they are side
# by side:
#
# | | the paper: columns, weights on the left | this course: rows, weights on the right | |
# |---|---|---|---|
# | one head's weights | $W_Q$ is (d_head, d_model) | `W_Q` is (d_model, d_head) | transposed |
# | QK circuit | $W_Q^T W_K$ | `W_Q @ W_K.T` | **the same matrix** |
# | OV circuit | $W_O W_V$, rows write | `W_V @ W_O`, rows read | **transposed** |
# | head | $(A \otimes W_O W_V)\, x$ | `A @ x @ W_V @ W_O` | |
#
# Beware of one trap. `W_O @ W_V` in row code gives a small (d_head, d_head) matrix, which has the same
# non-zero eigenvalues as the right one. And a transposed $W_{OV}$ has the same trace, norm and
# eigenvalues as the right one. Any summary number built on those cannot tell you that you have the
# wrong matrix. Look at a row instead.
#
# ### The keyhole: low rank
#
# Both circuits are large, (d_model, d_model), but thin: everything passes through `d_head` dimensions.
# So their rank is at most `d_head`. The picture shows the singular values of two matrices: the OV
# circuit of a random head with `d_model` 64 and `d_head` 8, and a random matrix of the same size.

# %% demo
g = torch.Generator().manual_seed(0)
thin = torch.randn(64, 8, generator=g) @ torch.randn(8, 64, generator=g) / 8
full = torch.randn(64, 64, generator=g)
pictures.lines(
    {
        "W_OV of a head": torch.linalg.svdvals(thin),
        "a random (64, 64) matrix": torch.linalg.svdvals(full),
    },
    x_label="singular value, in order",
    y_label="its size",
    title="A head reads 8 directions and writes 8 directions",
)

# %% [markdown]
# After the eighth value there is nothing. The head can read from 8 directions of the stream and is blind
# to the other 56. It can write into 8 directions and never touches the others. The singular vectors say
# which: $W_{OV} = U S V^T$, where the columns of $U$ span what it reads and the rows of $V^T$ what it
# writes. (In the paper's convention the two change places.) This is why many heads can share one stream:
# they use different parts of it.

# %% [markdown]
# ## 7 · The tensor product: one symbol for one head
#
# You saw that a head does two things to $x$ that do not interfere: it mixes positions from the left and
# directions from the right. The paper writes such a pair as $A \otimes W$, read "A tensor W". It is not
# a new computation. It is a name for "apply $A$ across positions and $W$ within each position":
#
# | the paper | this course | in words |
# |---|---|---|
# | $(\mathrm{Id} \otimes W)\,x$ | `x @ W` | acts within every position, moves nothing |
# | $(A \otimes \mathrm{Id})\,x$ | `A @ x` | moves things, changes nothing about them |
# | $(A \otimes W)\,x$ | `A @ x @ W` | a head, with $W = W_{OV}$ |
# | $(A_2 \otimes W_2)(A_1 \otimes W_1) = (A_2 A_1) \otimes (W_2 W_1)$ | `A2 @ A1 @ x @ W1 @ W2` | two heads, one after the other |
#
# (Each $W$ in the left column is the paper's, for columns; in code it is ours, the transpose.)
#
# If $A \otimes W$ deserves to be called *one* linear map, there must be one matrix for it. There is.
# Write all of $x$ into one long vector with `x.reshape(-1)`: first all `d_model` numbers of position 0,
# then all of position 1, and so on. Then the head is a single matrix $M$ of shape
# (pos · d_model, pos · d_model). The picture shows one for 3 positions and a stream of 2 dimensions.

# %% demo
A = torch.tensor([[1.0, 0.0, 0.0], [0.4, 0.6, 0.0], [0.1, 0.7, 0.2]])
W_small = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
columns = torch.stack([(A @ e.reshape(3, 2) @ W_small).reshape(-1) for e in torch.eye(6)], dim=1)
pictures.matrices(
    {"pattern A": A, "W_OV": W_small, "M": columns},
    axes={
        "pattern A": ("destination", "source"),
        "W_OV": ("reads", "writes"),
        "M": ("destination, writes", "source, reads"),
    },
    blocks={"M": 2},
)

# %% [markdown]
# Compare the blocks of $M$ with $A$: nine blocks, one for each pair of positions. Then look inside one
# block and compare it with $W_{OV}$. What happened to it?
#
# ### Exercise: A head as one big matrix
#
# *15 minutes · difficulty 3 of 3 · 3 points*
#
# Build $M$ from the pattern and $W_{OV}$ so that `M @ x.reshape(-1)` equals
# `(pattern @ x @ W_OV).reshape(-1)` for every `x`. Our weights are for rows, but here the long vector
# stands on the right of $M$, as a column. That is the one thing to be careful about. The matrix is
# called a *Kronecker product*; build it yourself, or look up `torch.kron`, which here wants factors that
# are `.contiguous()`.


# %% answer
def tensor_product(pattern, W_OV):
    """One matrix for a whole head: M @ x.reshape(-1) == (pattern @ x @ W_OV).reshape(-1).

    pattern (dst, src), W_OV (d_model, d_model) → (pos · d_model, pos · d_model)
    """
    ### BEGIN SOLUTION
    pos, d_model = len(pattern), len(W_OV)
    # out[i, o] = sum over j, d of pattern[i, j] * W_OV[d, o] * x[j, d]
    M = torch.einsum("ij,do->iojd", pattern, W_OV)
    return M.reshape(pos * d_model, pos * d_model)  # rows (i, o), columns (j, d)
    ### END SOLUTION


# %% check
check(tensor_product)

# %% [markdown]
# **What you showed.** A head with its pattern frozen is one linear map on the whole stream, all
# positions together. Nobody computes it this way: for 1,000 positions and 768 dimensions the matrix
# would have more than half a trillion entries. It is for thinking. With it, the layer of section 5 is
# simply a matrix, $\mathrm{Id} + \sum_h A^h \otimes W_{OV}^h$, and layers in a row are a product of
# such sums, which can be multiplied out. That is where the paths of notebooks 03 and 04 come from.
#
# ### Two heads in a row
#
# Let a head of a later layer read what an earlier head wrote. Head 1 moves something from a source to a
# middle position; head 2 moves it on. What comes out looks exactly like the work of one head:
#
# $$ A_2\,(A_1\, x\, W_1)\,W_2 = (A_2 A_1)\; x\; (W_1 W_2) $$
#
# The paper calls this a **virtual head**. It has a pattern of its own, $A_2 A_1$, and an OV circuit of
# its own. Mind the order: on the left the later head stands first, on the right the earlier one does. In
# the paper's columns both stand in the same order, because there the weights act from the left, too.
#
# ### Exercise: Two heads in a row are one head
#
# *10 minutes · difficulty 2 of 3 · 2 points*
#
# Head 1 acts first, head 2 on what head 1 wrote. The weights `W1` and `W2` are their OV circuits in row
# convention. Return the pattern and the OV circuit of the virtual head, as a tuple. Each is judged by
# itself.


# %% answer
def mixed_product(A1, W1, A2, W2):
    """Head 1, then head 2, as one head.

    A1, A2 (dst, src), the heads' patterns; W1, W2 (d_model, d_model), their OV circuits
    → tuple: the pattern (dst, src) and the OV circuit (d_model, d_model) of both in a row
    """
    ### BEGIN SOLUTION
    # Head 2 applied to head 1's output: A2 @ (A1 @ x @ W1) @ W2
    pattern = A2 @ A1
    W_OV = W1 @ W2
    return pattern, W_OV
    ### END SOLUTION


# %% check
check(mixed_product)

# %% [markdown]
# **What you showed.** Heads multiply like matrices. The product of two causal patterns is again a
# causal pattern whose rows sum to 1: if every row shares out 1, so does a share of shares.
#
# Here is the smallest useful example. A head that always looks one position back, applied twice, looks
# two positions back. No single head had to learn that.

# %% demo
one_back = torch.diag(torch.ones(7), -1)
one_back[0, 0] = 1.0  # the first position can only look at itself
pictures.patterns(
    torch.stack([one_back, one_back @ one_back, one_back @ one_back @ one_back]),
    words[:8],
    titles=["one head", "twice", "three times"],
    columns=3,
)

# %% [markdown]
# **Try this.** Blur the head: let it look back one position with 0.7 and at itself with 0.3. What does
# the product of two such heads look like, and why is it broader?

# %%
step_back = torch.diag(torch.ones(7), -1)
step_back[0, 0] = 1.0
blurred = 0.7 * step_back + 0.3 * torch.eye(8)
pictures.pattern(blurred @ blurred, words[:8], title="A blurred head, twice", numbers=True)

# %% [markdown]
# ## 8 · What is real inside a head?
#
# Suppose you look at a query vector and find that its third number is large. Does that mean something?
# In general, no. The scores only ever use $q_i \cdot k_j$. Take any invertible matrix $R$ of shape
# (d_head, d_head), use $W_Q R$ for $W_Q$, and undo $R$ on the side of the keys. All queries and keys are
# now different numbers, and every score is the same. Values have the same freedom, with a matrix $S$ of
# their own, which $W_O$ undoes.

# %% demo
g = torch.Generator().manual_seed(3)
x = torch.randn(5, 8, generator=g)
W_Q, W_K = torch.randn(2, 8, 3, generator=g) / 8**0.5
R = torch.tensor([[0.3, 1.2, 0.0], [-1.0, 0.4, 0.8], [0.5, 0.0, 1.5]])
q, k = x @ W_Q, x @ W_K
q_new, k_new = q @ R, k @ torch.linalg.inv(R).T
assert torch.allclose(q @ k.T, q_new @ k_new.T, atol=1e-5)
pictures.matrices(
    {
        "queries": q,
        "other queries": q_new,
        "q · k, before": q @ k.T,
        "q · k, after": q_new @ k_new.T,
    },
    axes={
        "queries": ("position", "d_head"),
        "other queries": ("position", "d_head"),
        "q · k, before": ("destination", "source"),
        "q · k, after": ("destination", "source"),
    },
)

# %% [markdown]
# ### Exercise: The same head in another basis
#
# *15 minutes · difficulty 2 of 3 · 3 points*
#
# Change all four weights so that $W_{QK}$ and $W_{OV}$ stay exactly as they are. `R` is for the queries
# and keys, `S` for the values and `W_O`. Both are invertible, but they are **not** rotations: they
# stretch as well, so a transpose is not an inverse. Multiply `W_Q` by `R` and `W_V` by `S` (their
# inverses or transposes are fine, too), and find what the partners need. The QK pair and the OV pair
# earn points separately.


# %% answer
def change_of_basis(W_Q, W_K, W_V, W_O, R, S):
    """The same head with other queries, keys and values: W_QK and W_OV stay, all four weights change.

    W_Q, W_K, W_V (d_model, d_head), W_O (d_head, d_model); R, S (d_head, d_head), invertible
    → tuple (W_Q, W_K, W_V, W_O)
    """
    ### BEGIN SOLUTION
    # W_QK: (W_Q R)(W_K X).T = W_Q R X.T W_K.T, so R X.T must be the identity.
    # W_OV: (W_V S)(Y W_O), so S Y must be the identity.
    undo_R, undo_S = torch.linalg.inv(R), torch.linalg.inv(S)
    return W_Q @ R, W_K @ undo_R.T, W_V @ S, undo_S @ W_O
    ### END SOLUTION


# %% check
check(change_of_basis)

# %% [markdown]
# **What you showed.** Queries, keys and values are coordinates, and the coordinates are arbitrary.
# If someone shows you "neuron 3 of the key", ask in which basis. What does not depend on the choice:
#
# - the pattern, because it belongs to pairs of positions;
# - $W_{QK}$ and $W_{OV}$ as a whole, because they go from stream to stream;
# - and, once they are expressed in tokens, which rows and columns of them are large.
#
# The stream has the same freedom (you turned it in notebook 00). Only where something happens to each
# coordinate by itself is there a basis that means something: tokens, attention patterns, and the neurons
# of an MLP.

# %% [markdown]
# ## 9 · Two heads written by hand
#
# Time to see both circuits do something. Below is a whole one-layer model whose weights we write
# ourselves, so that we know what its heads do before we read them. It knows six words. Its stream has 20
# dimensions, and we use them in four groups: six say which token this is, six are for "which token came
# before", six are for the next token (the only ones that the unembedding reads), two are for the position.
#
# **Head 0 looks one position back.** Each position is a point on a circle (as in the paper's models,
# positions go into queries and keys only). The query turns that point back by one step, so that it falls
# on the key of the position before. Its OV circuit copies the token it finds into the group "came before".
#
# **Head 1 looks for names.** The word " and" asks, the two names answer. Its OV circuit copies the name
# into the group "next token".

# %%
vocab = [" Ann", " Bob", " met", " saw", " and", "."]
token, before, out, place = torch.eye(20).split([6, 6, 6, 2])  # four groups of directions
angle = 2 * torch.pi * torch.arange(10) / 24
W_pos = torch.stack([angle.cos(), angle.sin()], dim=1) @ place
turn = torch.tensor(2 * torch.pi / 24)  # one step around the circle
back = torch.tensor([[turn.cos(), -turn.sin()], [turn.sin(), turn.cos()]])
asks = token[4:5].T @ torch.eye(1, 6)  # " and"
names = (token[0] + token[1])[:, None] @ torch.eye(1, 6)  # " Ann", " Bob"
W_Q = torch.stack([500 * place.T @ back @ torch.eye(2, 6), 12 * asks])
W_K = torch.stack([place.T @ torch.eye(2, 6), names])
W_V, W_O = torch.stack([token.T, token.T]), torch.stack([before, 2 * out])
by_hand = Transformer(token, out.T, W_pos, W_Q[None], W_K[None], W_V[None], W_O[None])

# %% [markdown]
# First look at what the heads do on a text.

# %% demo
ids = torch.tensor([5, 0, 2, 1, 4, 1, 3, 0, 4])
sentence = [vocab[i] for i in ids]
logits, cache = by_hand.run_with_cache(ids)
pictures.patterns(
    cache.pattern[0], sentence, titles=["head 0: one back", "head 1: names"], columns=2
)

# %% [markdown]
# Head 0 does as told. Head 1 does as told in two rows, those of " and". In all other rows it has no
# question, all scores are 0, and its attention is spread evenly. It *cannot* look nowhere.
#
# Now read the same two heads without running anything, from their circuits. $W_{QK}$ and $W_{OV}$ are
# matrices between directions of the stream. To see them in words, put the embedding and the unembedding
# around them: $W_E W_{QK} W_E^T$ says which token asks for which, and $W_E W_{OV} W_U$ says which token,
# when looked at, raises the logit of which. Notebook 03 is about these two tables.

# %% demo
E, U = by_hand.W_E, by_hand.W_U
where = E @ (W_Q @ W_K.mT) @ E.T  # (head, token, token): `@` serves both heads at once
what = E @ (W_V @ W_O) @ U
pictures.matrices(
    {"head 0, QK": where[0], "head 0, OV": what[0], "head 1, QK": where[1], "head 1, OV": what[1]},
    axes={
        "head 0, QK": ("destination", "source"),
        "head 0, OV": ("source", "output"),
        "head 1, QK": ("destination", "source"),
        "head 1, OV": ("source", "output"),
    },
    labels=vocab,
    digits=0,
)

# %% [markdown]
# Head 1 is an open book: in its QK table one row is filled, " and", with both names; its OV table is a
# diagonal, so whatever it looks at becomes likelier as the next token. It copies.
#
# **Question.** Both tables of head 0 are empty, and yet it does something at every position. Why
# do the tables not show it?
#
# <details><summary>Answer</summary>
#
# Its QK side works on positions, and the table only asks about tokens. Replace $W_E$ by $W_\text{pos}$ on
# both sides and you would see a clear stripe. Its OV side writes into the group "came before", and the
# unembedding reads another group. Nobody reads that group in this model. A head of a *second* layer could
# read it: "the token before this one was X" is exactly what an induction head needs (notebooks 04
# and 05). So an empty table says "no direct effect on the output". It does not say "no effect".
#
# </details>
#
# **Try this.** Change `500` to `20` in the cell with the weights and look at head 0's pattern again: how
# sharp a head is lies in the size of $W_{QK}$, not in its direction. Or let `turn` be two steps. Or give
# head 1 the OV circuit $-2$ instead of $2$: a head that *lowers* what it looks at. You will meet such
# heads in notebook 07.

# %% [markdown]
# ## 10 · Read it in a trained model
#
# Now heads that nobody wrote. The course ships a one-layer model with eight heads, trained on Python
# code, its documentation and English text. The text below is ours; change it and run on.

# %%
model = models.load("one-layer")
text = "def find(self, name):\n    if name is None:\n        raise KeyError(name)\n    return self.table[name]\n"
tokens = model.tokenizer.encode(text)
labels = model.tokenizer.token_strings(tokens)
logits, cache = model.run_with_cache(tokens)
print(len(tokens), "tokens:", *labels)

# %% demo
pictures.patterns(cache.pattern[0, ..., :16, :16], labels[:16], columns=4)

# %% [markdown]
# Read them as you would read tracks in snow. A stripe next to the diagonal means: this head goes by
# *position*, a fixed number of steps back. A dark column means: this head goes by *content*, many
# destinations look at the same token. A row spread evenly means that the head found nothing to ask
# about. And a bright first column is often a resting place, as you saw in section 3.
#
# One snippet can mislead. So take many texts that the model has not seen in training, and ask how far
# back each head looks on average. The last row shows what a head would do that looks everywhere alike.

# %% demo
kinds = ("code", "docs", "english")
texts = torch.cat([models.sample_tokens(kind)[:2048].reshape(-1, 128) for kind in kinds])
average = model.run_with_cache(texts)[1].pattern[0].mean(dim=0)  # (head, dst, src)
evenly = torch.ones(1, 128, 128).tril() / torch.arange(1.0, 129.0)[:, None]
average = torch.cat([average, evenly])
near = [
    average.diagonal(-d, 1, 2)[:, 64 - d :].mean(dim=1) for d in range(7)
]  # from position 64 on
pictures.matrix(
    torch.stack([*near, 1 - sum(near)], dim=1),
    rows=[*(f"head {h}" for h in range(model.n_heads)), "evenly"],
    columns=["itself", *(f"{d} back" for d in range(1, 7)), "farther"],
    axes=("", "where the attention goes"),
    title="How far back each head looks, on average",
    diverging=False,
)

# %% [markdown]
# Heads whose row is bright near the left go by *position*: they look at the last few tokens whatever
# those are. Heads whose row resembles the last one have no favorite distance. If such a head is choosy
# all the same, it goes by *content*: it looks for certain tokens, wherever they stand. The paper found
# the same two kinds in its one-layer models. For language the second kind is the more interesting one,
# since it can carry a name or an open bracket over a long distance. The picture shows the strongest look
# at something five or more tokens back in the text above.

# %% demo
shown = cache.pattern[0, :, :16, :16]
long_looks = shown * torch.ones(16, 16).tril(-5)
head, dst, src = (int(i) for i in torch.unravel_index(long_looks.argmax(), shown.shape))
pictures.attention_flow(
    shown[head], labels[:16], destination=dst, title=f"Head {head}, a long way back"
)

# %% [markdown]
# Now look for yourself. Choose a head and a token: the text is shaded by where that token looks, and hovering
# any token says what the head moves to it. Tick "weigh by the size of what is moved" and see which of the dark
# squares fade: there a head looks without fetching much. Type a text of your own.

# %% demo
lab.attention_viewer(model, head=(0, head))

# %% [markdown]
# **Question.** *With the text as we gave it, a colon looks at `⏎····`, the line break and the spaces with
# which its own line began. What is that good for?*
#
# <details><summary>Answer</summary>
#
# After a colon, Python starts a new line that is indented one step more than the line of the colon. To
# predict it, the model must know how far the present line is indented, and that was said many tokens ago.
# The head fetches it. The paper tells of the same behavior in its models: earlier tabs, seen from a line
# break, decide how many tabs come next. "Source … destination → next token" is called a *skip-trigram*.
#
# </details>
#
# Now both circuits of every head, each as a single number: its Frobenius norm, the root of the sum of
# squared entries. A large $W_{QK}$ makes a head choosy. A large $W_{OV}$ makes its output loud.

# %% demo
qk, ov = model.W_Q[0] @ model.W_K[0].mT, model.W_V[0] @ model.W_O[0]
pictures.points(
    qk.flatten(1).norm(dim=1),
    ov.flatten(1).norm(dim=1),
    labels=[f"head {h}" for h in range(len(qk))],
    x_label="size of the QK circuit",
    y_label="size of the OV circuit",
    title="Eight heads, two circuits each",
)

# %% [markdown]
# Size is not meaning: the norm does not say *which* directions a head reads or writes. To find that
# out, put the embedding and the unembedding around the circuits, as in section 9. The next notebook does
# that, and makes the tables readable although they have millions of entries.
#
# **Try this.** Your own functions compute this model. Its positions are added to what queries and keys
# read, and to nothing else. Take the `#` away once your answers have passed.

# %%
x = model.W_E[tokens]
with_positions = x + model.W_pos[: len(x)]
W_Q, W_K, W_V, W_O = (W[0, 0] for W in (model.W_Q, model.W_K, model.W_V, model.W_O))  # head 0
# mine = causal_pattern(attention_scores(with_positions, with_positions, W_Q, W_K))
# print(torch.allclose(mine, cache.pattern[0, 0], atol=1e-5))
# print(torch.allclose(head_output(x, mine, W_V, W_O), cache.head_out[0, 0], atol=1e-4))

# %% [markdown]
# ## What you have shown
#
# | the paper says | you built |
# |---|---|
# | Heads move information between positions; the pattern says from where to where. | `attention_scores`, `causal_pattern`, `head_output` |
# | Heads are independent and additive; concatenating them is the same as adding them. | `attention_layer`, `concat_equals_sum` |
# | A head is two nearly separate computations: QK says where, OV says what. | `qk_circuit`, `ov_circuit` |
# | With frozen patterns a head is linear: $A \otimes W_{OV}$. | `tensor_product` |
# | The product of two heads is a head: $(A_2 A_1) \otimes (W_2 W_1)$ for columns. | `mixed_product` |
# | Queries, keys and values are only a choice of coordinates, and both circuits have low rank. | `change_of_basis` |
#
# Three things to remember when you read papers or code. The paper's columns are our rows: $W_{QK}$ is the
# same in both, $W_{OV}$ is transposed. A *score* is divided by $\sqrt{d_\text{head}}$, a *circuit* is not.
# And a frozen pattern explains what a head did with one text; the reason why lies in QK.
#
# **Next:** [03 · one layer](../03-one-layer/03-one-layer.ipynb) puts a whole one-layer model together. You will read it like a table: this token
# far back, that token here, so this one comes next. And you will find a bug that it cannot avoid.

# %%
progress()
