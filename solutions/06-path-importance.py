# %% [markdown]
# # 06 · Path importance: which paths matter
#
# You can split a two-layer model into paths: the direct path, one path through each head, one through
# each pair of heads. With a dozen heads in each layer that is 169 terms. Nobody wants to read 169
# terms. Which of them carry the predictions?
#
# **After this notebook you can**
#
# - measure what paths of length 0, 1 and 2 are worth, with the paper's own procedure;
# - say why the attention patterns must be frozen for that, and where it shows if they are not;
# - tell what a layer is worth alone from what it is worth beside the others;
# - put the paper's table beside the same numbers of two models of this course, and say honestly where
#   they agree and where they do not;
# - use two popular pictures of a model, and know how each of them can mislead.
#
# **Time:** about two hours. **It builds on** the paths and virtual heads of notebook 04 and the
# induction heads of notebook 05. In the
# [paper](https://transformer-circuits.pub/2021/framework/index.html) you are in the sections "Path
# Expansion of Logits" and "Term Importance Analysis".
#
# `check(name)` judges your function, `hint(name)` gives one hint at a time, `solution(name)` shows our
# way once you have passed.

# %%
import torch

from grader import check, hint, lab, models, progress, solution
from grader.lab import path_losses, pictures
from grader.transformer import Transformer

trained = {name: models.load(name) for name in ("two-layer", "two-layer-curriculum")}
kinds = ("code", "docs", "english")
texts = torch.cat([models.sample_tokens(kind)[:512].reshape(-1, 256) for kind in kinds])

# %% [markdown]
# Two models with two layers of four heads, and six pieces of text that neither has seen in training:
# Python code, its documentation, English. `two-layer` was trained on such text from the start.
# `two-layer-curriculum` first practiced on repeated random tokens, so that it learned induction early,
# and then went on to the same text. Remember that difference. It will come up.

# %% [markdown]
# ## 1 · A sum of logits is not a sum of losses
#
# Freeze the patterns of a run, and the logits of a two-layer model are a sum of three groups of paths:
#
# $$ \text{logits} \;=\; \underbrace{x_0 W_U}_{\text{order 0}} \;+\; \underbrace{\sum_{l,h} A^{lh} x_0 W_{OV}^{lh} W_U}_{\text{order 1}} \;+\; \underbrace{\sum_{i,j} A^{1i} A^{0j} x_0 W_{OV}^{0j} W_{OV}^{1i} W_U}_{\text{order 2}} $$
#
# The **order** of a path is the number of heads on it. (In the paper's columns the two OV circuits
# stand the other way round, $W_{OV}^{1i} W_{OV}^{0j}$. The patterns stand as here.)
#
# The logits are a sum; the loss is not. It passes through a softmax. So "what is this term worth?" has
# no answer until you say **what it is added to**. Here is a small example of why. Two terms say the
# same thing about the next token. Each alone helps a lot. Once one is there, the other helps far less:

# %% demo
says = 3.0 * torch.eye(8)[0]  # a term that lifts token 0, the true one, by 3


def loss_with(*terms):
    return -sum(terms, torch.zeros(8)).log_softmax(dim=-1)[0]


pictures.bars(
    torch.stack([loss_with() - loss_with(says), loss_with(says) - loss_with(says, says)]),
    ["first", "second"],
    x_label="term, both say the same",
    y_label="nats saved",
    title="The same term, added to nothing and to its twin",
)

# %% [markdown]
# Every number in this notebook is a difference of two losses, and we always say which two.

# %% [markdown]
# ## 2 · Order by order
#
# The paper gives a procedure that needs no list of paths. It runs the model again and again:
#
# 1. Run the model once and **save all attention patterns**.
# 2. Run it again with those patterns forced. Let no head write into the stream: put zeros in place of
#    its output. But **save what the head would have written**. The loss of this run is that of order 0.
# 3. Run it again, patterns forced. Put in place of each head's output **what was saved in the run
#    before**, and save what it computes now. The loss is that of order ≤ 1.
# 4. And so on: each further run lets paths grow by one head.
#
# Why does that work? In step 2 every head of *both* layers reads the bare embedding, since nobody wrote.
# What is saved there are the order-1 terms. In step 3 those terms are in the stream, so what the heads
# of layer 1 compute now is order 1 *and* order 2. With two layers it ends here: a third round gives the
# whole model.
#
# ### Exercise: The loss, order by order
#
# *25 minutes · difficulty 3 of 3 · 4 points*
#
# Return three losses: with the direct path only, with all paths of order ≤ 1, with all of order ≤ 2.
# They are means over the predictions of one text, in nats. You may follow the procedure, or sum the
# paths in your own way. Use the patterns of the clean run throughout; `model.run_with_cache(tokens)`
# returns the logits and a cache with `cache.pattern`, of shape (layer, head, dst, src), and
# `cache.stream[0]`, the embedded text.


# %% answer
def term_importance(tokens, model):
    """The mean loss with paths of order 0, of order ≤ 1, of order ≤ 2, patterns of the clean run.

    tokens (pos,), at least two; model, two layers → three losses in nats
    """
    ### BEGIN SOLUTION
    pattern = model.run_with_cache(tokens)[1].pattern
    saved, losses = torch.zeros(2, len(tokens), model.d_model), []
    for _ in range(3):
        x, computed = model.W_E[tokens], []
        for layer in (0, 1):
            heads = pattern[layer] @ (x @ model.W_V[layer]) @ model.W_O[layer]
            computed.append(heads.sum(dim=0))  # what this layer says of the stream so far …
            x = x + saved[layer]  # … and what it said in the run before, which goes in
        saved = computed
        logits = x @ model.W_U
        losses.append(torch.nn.functional.cross_entropy(logits[:-1], tokens[1:]))
    return torch.stack(losses)
    ### END SOLUTION


# %% check
check(term_importance)

# %% [markdown]
# **What you showed.** Three forward passes sort more than a hundred paths by their length. No path was
# ever written down. Now the two trained models on our six texts. A model that knows
# nothing gives every token the same probability; its loss stands in the title.

# %% demo
losses = {name: path_losses.by_order(model, texts) for name, model in trained.items()}
knows_nothing = path_losses.loss_of(trained["two-layer"], texts, [])
picture = pictures.lines(
    losses,
    x_label="longest path in the sum (heads)",
    y_label="loss (nats per token)",
    title=f"What longer paths add (a uniform guess: {knows_nothing:.2f})",
)
picture.axes[0].set_xticks([0, 1, 2])
picture

# %% [markdown]
# Read each line from left to right. How far it falls from one order to the next is what the new paths
# add **to all shorter ones**. In `two-layer` the line is nearly flat at the end: once the single heads are
# there, the virtual heads add little. In the other model it keeps falling. Section 5 finds out why.

# %% [markdown]
# ## 3 · Why the patterns must be frozen
#
# In step 2 nobody writes into the stream. If layer 1 computed its patterns from *that* stream, it would
# look somewhere else: its queries and keys would miss what layer 0 has to say. An induction head could no
# longer find its place. We want to know what the paths are worth that the model *really uses*, so each
# head must look where it looked in the real run.
#
# A learner who forgets this gets a result that looks fine. Here is what happens to the loss of each
# order:

# %% demo
shown = {}
for name, model in trained.items():
    anew = path_losses.by_order(model, texts, frozen=False)
    shown[name] = torch.tensor(anew) - torch.tensor(losses[name])
picture = pictures.lines(
    shown,
    x_label="longest path in the sum (heads)",
    y_label="loss anew − loss frozen (nats)",
    title="Forgetting to freeze shows at order 1 and nowhere else",
)
picture.axes[0].set_xticks([0, 1, 2])
picture

# %% [markdown]
# At order 0 there is no pattern that could be wrong. At the **highest** order all paths are there: the
# stream is the real one, and a pattern computed anew is the real one too. The slip is invisible at both
# ends. Only order 1 shows it, by nearly half a nat. So if you test such code, test it in the middle.
#
# **Question.** *A model with three layers has orders 0 to 3. At which orders can a missing freeze show?*
#
# <details><summary>Answer</summary>
#
# At 1 and 2. In the run for order 1, layers 1 and 2 read a stream without any head's output, so both look
# elsewhere. In the run for order 2, layer 1 already reads the true stream, and layer 2 still does not: the
# longest paths into it are missing. At order 3 everything is there.
#
# </details>

# %% [markdown]
# ## 4 · One layer, two starting points
#
# Order 1 holds the heads of both layers. Which layer's? You can ask in two ways, and section 1 told you
# that the answers differ:
#
# - **On top of the direct path**: the loss of the direct path alone, minus the loss of the direct path and
#   this layer's order-1 terms.
# - **Beside the other layer**: the loss of the direct path and the *other* layer's terms, minus the loss
#   with both.
#
# The virtual heads stay out of both. If a layer is worth much alone and little beside the other, the two
# layers say much the same.
#
# ### Exercise: What one layer is worth
#
# *15 minutes · difficulty 2 of 3 · 3 points*
#
# Return both numbers for the layer asked for. A useful layer gets positive numbers. At order 1 the heads
# of both layers read the embedding, each with its pattern of the clean run.


# %% answer
def marginal_effect(tokens, model, layer):
    """By how much one layer's order-1 terms lower the loss, from two starting points.

    tokens (pos,); model, two layers; layer 0 or 1
    → tuple: on top of the direct path; beside the other layer's order-1 terms (nats)
    """
    ### BEGIN SOLUTION
    pattern = model.run_with_cache(tokens)[1].pattern
    x = model.W_E[tokens]

    def loss(*layers):
        heads = (pattern[i] @ (x @ model.W_V[i]) @ model.W_O[i] for i in layers)
        stream = x + sum(terms.sum(dim=0) for terms in heads)
        logits = stream @ model.W_U
        return torch.nn.functional.cross_entropy(logits[:-1], tokens[1:])

    other = 1 - layer
    return loss() - loss(layer), loss(other) - loss(layer, other)
    ### END SOLUTION


# %% check
check(marginal_effect)

# %% [markdown]
# **What you showed.** The worth of a layer is not one number. In the paper's model the first layer's heads
# save 1.3 nats alone and 0.05 beside the second layer: nearly all they say directly is said again. You
# will see our models in the table below.
#
# **Try this.** Take the `#` away once your answer has passed. Do the two numbers of one layer always differ
# by as much as those of the other? Can you prove it? (Write down the four losses.)

# %%
text, asked = texts[0], trained["two-layer"]
# print(marginal_effect(text, asked, 0))
# print(marginal_effect(text, asked, 1))

# %% [markdown]
# ## 5 · One virtual head at a time
#
# Order 2 has a term for every pair: head $i$ of layer 1 reads what head $j$ of layer 0 wrote. To ask what
# one pair is worth, start from the **whole** model, take this one term out, and see how the loss rises.
# Everything else stays, the patterns too. So this is about the pair as a carrier of *values*
# (V-composition). What head $j$ does for the *pattern* of head $i$ (Q- and K-composition) is in the frozen
# pattern and is not taken away.
#
# ### Exercise: What one virtual head is worth
#
# *20 minutes · difficulty 2 of 3 · 3 points*
#
# Return a table with a row for each head of layer 1 and a column for each head of layer 0: the loss
# without that virtual term, minus the loss of the whole model. Some entries may be negative; keep them.


# %% answer
def virtual_head_importance(tokens, model):
    """How much the loss rises without one virtual head, patterns frozen, everything else in place.

    tokens (pos,); model, two layers → (head of layer 1, head of layer 0), nats
    """
    ### BEGIN SOLUTION
    logits, cache = model.run_with_cache(tokens)

    def loss(logits):
        return torch.nn.functional.cross_entropy(logits[:-1], tokens[1:])

    rises = torch.zeros(model.n_heads, model.n_heads)
    for i in range(model.n_heads):
        W_OV = model.W_V[1, i] @ model.W_O[1, i]
        for j in range(model.n_heads):
            term = cache.pattern[1, i] @ cache.head_out[0, j] @ W_OV
            rises[i, j] = loss(logits - term @ model.W_U) - loss(logits)
    return rises
    ### END SOLUTION


# %% check
check(virtual_head_importance)

# %% [markdown]
# **What you showed.** Because the logits are a sum, taking a path out is a subtraction. No second run is
# needed. Now all pairs of both models. Mind the two scales.

# %% demo
rises = {name: path_losses.without_virtual(model, texts) for name, model in trained.items()}
pictures.matrices(rises, axes=("head of layer 1", "head of layer 0"), digits=3)

# %% [markdown]
# In `two-layer` no pair matters much. In `two-layer-curriculum` almost everything hangs on one column, and
# on one pair in it. What is that head of layer 0? Find it by the largest entry and look at it.

# %% demo
model = trained["two-layer-curriculum"]
late, early = divmod(int(rises["two-layer-curriculum"].argmax()), model.n_heads)
tokens = texts[0, :20]
labels = model.tokenizer.token_strings(tokens)
cache = model.run_with_cache(tokens)[1]
pictures.patterns(
    torch.stack([cache.pattern[0, early], cache.pattern[1, late]]),
    labels,
    titles=[f"head 0.{early}", f"head 1.{late}"],
    columns=2,
)

# %% [markdown]
# The head of layer 0 looks at *itself*, everywhere. Its pattern is the identity, so it moves nothing. All it
# does is change each vector where it stands: $x_0 \to x_0 + x_0 W_{OV}$. That is a second, better embedding,
# written by a head. Every later head then reads the better embedding. By our count that is a path through
# two heads. But only one of them moves information.
#
# So do not count it. Let what passes through this head keep its order, and sum again:

# %% demo
picture = pictures.lines(
    {
        "every head counts": losses["two-layer-curriculum"],
        f"head 0.{early} does not count": path_losses.by_order(model, texts, free=[(0, early)]),
    },
    x_label="longest path in the sum (heads that count)",
    y_label="loss (nats per token)",
    title="two-layer-curriculum, counted in two ways",
)
picture.axes[0].set_xticks([0, 1, 2])
picture

# %% [markdown]
# Counted so, virtual heads add next to nothing, as in the paper. The paper knows such heads: its appendix
# says that a head with the identity as pattern and as OV circuit would take over the residual connection.
#
# The lesson is larger than this model. "Order 2 is worth one nat" was a true measurement. "Virtual heads
# matter here" was a wrong reading of it. A number about paths depends on what you call a path.
#
# **Question.** *Why did training build an embedding out of a head, when the model has $W_E$ for that?*
#
# <details><summary>Answer</summary>
#
# We do not know, but there is a guess that you can test. The model practiced first on repeated random
# tokens. There the direct path is useless: the next token does not depend on the present one. It needed
# clean token identities in the stream for induction. When it met real text, "which token tends to
# follow" was a new job, and a free head was the nearest place to learn it without disturbing what worked.
# The high loss of its direct path fits this: look at order 0 of the first picture. To test it, one would
# train several such models with and without the first phase.
#
# </details>

# %% [markdown]
# Switch paths off and on yourself. The sum of all of them is the model, up to rounding, and the line below the
# switches says how exactly. Which single switch costs the most? Try "direct only", then add one head.

# %% demo
lab.path_explorer(model)

# %% [markdown]
# ## 6 · The paper's table beside ours
#
# Here are all the numbers of the paper's table (its authors explain it in a
# [video](https://youtu.be/qom0nxou4f4)), and the same numbers for our two models, computed now on
# the six texts. "Layer 0" and "layer 1" are the paper's first and second layer.

# %% demo
path_losses.table(trained, texts)

# %% [markdown]
# **What agrees.** In all three models single heads are worth more than one nat on top of the direct path.
# In the paper's model and in `two-layer`, one virtual head is worth far less than one single head, on
# average, and the heads of layer 1 are worth much more than those of layer 0. This was the paper's reason to
# concentrate on single heads of the second layer, and on the induction heads among them.
#
# **What does not.**
#
# - *The direct path* of `two-layer` saves more than the paper's. The starting points cannot be compared: a
#   uniform guess over our 2,048 tokens costs 7.6 nats, over a vocabulary of 50,000 it would cost 10.8. And a
#   small vocabulary cuts words into more pieces; the next piece often follows from the present one. That is
#   our guess, not a measurement.
# - *The single heads*: 5.2 nats against less than 2. The paper's heads are three times as many, much wider,
#   read longer texts, and had more nats to work on.
# - *Layer 0 beside layer 1*: only 0.05 nats in the paper, clearly more in ours. Perhaps four heads a layer
#   leave less room for saying things twice.
# - *`two-layer-curriculum`* disagrees in nearly every row, because of one head that looks at itself.
#
# So the direction holds and the sizes do not. A table like this describes one model on one kind of text. If
# you quote it, quote both. And beware of the column "each": it divides a group's worth by the number of
# terms, as if they were alike. You saw one pair that held almost everything.

# %% [markdown]
# ## 7 · A popular shortcut: direct logit attribution
#
# Removing terms and measuring losses is slow for large models. A quicker picture asks each part of the
# stream directly: multiply it by $W_U$ and look at the logit of the token that really came next. This is
# called **direct logit attribution**. Since a softmax does not see what all logits share, take each part's
# mean over the vocabulary off.
#
# ### Exercise: Who lifts the true next token
#
# *15 minutes · difficulty 2 of 3 · 3 points*
#
# `components` holds parts of the stream: the embedding, heads, or anything else. For each part and each
# position with a next token, return its logit for that next token minus its mean logit over the whole
# vocabulary.


# %% answer
def direct_logit_attribution(components, W_U, tokens):
    """Each part's logit for the true next token, less its mean logit over the vocabulary.

    components (component, pos, d_model), W_U (d_model, d_vocab), tokens (pos,)
    → (component, pos − 1)
    """
    ### BEGIN SOLUTION
    logits = components[:, :-1] @ W_U  # the last position has no next token
    next_tokens = tokens[1:].expand(len(components), -1)[..., None]
    return logits.gather(-1, next_tokens)[..., 0] - logits.mean(dim=-1)
    ### END SOLUTION


# %% check
check(direct_logit_attribution)

# %% [markdown]
# **What you showed.** One matrix product asks every part of a model what it says about the next token, and
# the answers add up to what the whole model says. That sum is exact. The trap is in how one reads a single
# bar.
#
# ### How it misleads
#
# The stream has little room, so parts clean up after others (notebook 00 built an eraser). Suppose a head of
# layer 0 writes a note that only layer 1 is meant to read. By accident the note also points toward some
# token's logit. A head of layer 1 reads the note, does its work, and **erases** it. Attribution then shows
# two large bars: one part lifts the token, another pushes it down. Neither is about the token at all.

# %% demo
g = torch.Generator().manual_seed(1)
note = torch.randn(16, generator=g)
note = note / note.norm()
W_U_toy = torch.randn(16, 30, generator=g)
W_U_toy[:, 7] = 2 * note + 0.3 * torch.randn(16, generator=g)  # token 7 happens to be near the note
useful = 0.5 * W_U_toy[:, 7] / W_U_toy[:, 7].norm()
toy_parts = torch.stack([3 * note, -3 * note, useful])  # the last one means token 7
bars = toy_parts @ (W_U_toy[:, 7] - W_U_toy.mean(dim=1))
pictures.bars(
    torch.cat([bars, bars.sum()[None]]),
    ["0: note", "1: eraser", "1: useful", "sum"],
    x_label="part of the stream (its layer first)",
    y_label="logits for token 7",
    title="Two large bars that mean nothing",
)

# %% [markdown]
# Is that a thought experiment only? A [study of memory management](https://arxiv.org/abs/2310.07325) (2023)
# found it in a trained model of four layers: later heads erase what an earlier head wrote, and with it what
# attribution had credited that head with.
#
# Here is a test for our models. With frozen patterns, what a head of layer 0 does to the logits is its
# direct part **plus** what each head of layer 1 makes of it. All of it is linear, so all of it can be
# attributed. Attribution draws only the first column.


# %% demo
def attributed(x):
    """The mean lift of the true next token by a part of the stream, (batch, pos, d_model)."""
    wanted = (model.W_U - model.W_U.mean(dim=1, keepdim=True)).T[texts[:, 1:]]
    return (x[:, :-1] * wanted).sum(dim=-1).mean()


rows = []
cache = model.run_with_cache(texts)[1]
for written in cache.head_out[0].unbind(dim=1):
    heard = cache.pattern[1] @ (written[:, None] @ model.W_V[1]) @ model.W_O[1]
    rows.append(torch.stack([attributed(x) for x in (written, *heard.unbind(dim=1))]))
table = torch.stack(rows)
pictures.matrix(
    torch.cat([table, table.sum(dim=1, keepdim=True)], dim=1),
    rows=[f"head 0.{h}" for h in range(4)],
    columns=["direct", *(f"via 1.{h}" for h in range(4)), "sum"],
    axes=("written by", "logits for the true next token"),
    title="two-layer-curriculum: what attribution leaves out",
)

# %% [markdown]
# Read each row from left to right. Where the direct part is positive and the others are negative, layer 1
# takes back part of what this head seems to say; attribution gives the head too much credit. Where the others
# are positive, layer 1 says it once more, and attribution gives too little. In this model both happen.
#
# And a third thing is in no column at all. A previous-token head of layer 0 does most of its work through
# the *patterns* of layer 1. Frozen patterns hide it. Only a real ablation, with everything after it run anew,
# shows that. The picture has three columns: what is attributed to a head (in logits); how the loss rises if
# only its direct part is taken out of the logits; how it rises if the head is taken out of the model.


# %% demo
def mean_loss(logits):
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), texts[:, 1:].flatten())


logits = model(texts)
direct_only, anew = [], []
for h in range(4):
    W_O = model.W_O.clone()
    W_O[0, h] = 0
    anew.append(mean_loss(model.with_weights(W_O=W_O)(texts)) - mean_loss(logits))
    direct = cache.head_out[0][:, h] @ model.W_U
    direct_only.append(mean_loss(logits - direct) - mean_loss(logits))
pictures.matrix(
    torch.stack([table[:, 0], torch.stack(direct_only), torch.stack(anew)], dim=1),
    rows=[f"head 0.{h}" for h in range(4)],
    columns=["attributed", "direct off", "head off"],
    axes=("layer 0", "logits; then rises of the loss, in nats"),
    title="The same heads by three measures",
)

# %% [markdown]
# **Question.** *Which heads would you have called unimportant by attribution alone?*
#
# <details><summary>Answer</summary>
#
# The ones whose first number is small and whose last is large. In the model as shipped, head 0.0 has almost
# no direct effect, and yet the loss rises by half a nat without it. What it writes is read by the next
# layer. Attribution is a good question, "who speaks to the output?". It is not the question "who matters?".
#
# </details>

# %% [markdown]
# ## 8 · A second shortcut: looking at patterns
#
# Notebook 02 warned you: a row of a pattern must sum to 1, so a head with nothing to say has to look
# *somewhere*. It picks a source whose value is close to zero, a **resting place**. The plain pattern shows
# this rest as if it mattered. The paper therefore weighs each entry by the size of what is moved, the length
# of the value vector: $A_{ij}\,\lVert v_j \rVert$.
#
# ### Exercise: A pattern weighed by what it moves
#
# *8 minutes · difficulty 1 of 3 · 2 points*
#
# Multiply each entry of the pattern by the Euclidean length of its source's value. The rows need not sum to 1
# afterwards, and should not be made to: a row with a small sum is a destination where the head does little.


# %% answer
def value_weighted_pattern(pattern, v):
    """Attention times the length of the value that it moves; rows are not normalized.

    pattern (dst, src), v (src, d_head) → (dst, src)
    """
    ### BEGIN SOLUTION
    lengths = (v * v).sum(dim=-1).sqrt()  # (src,): one for each column
    return torch.einsum("ij,j->ij", pattern, lengths)
    ### END SOLUTION


# %% check
check(value_weighted_pattern)

# %% [markdown]
# **What you showed.** Attention is a share of nothing in particular until you know what is shared out. Which
# of our heads rest? For each head, compare the average length of what arrives with the average length of its
# values. A head that does not care about lengths has a ratio of 1. A head that rests on small values has less.

# %% demo
ratios = []
for each in trained.values():
    seen = each.run_with_cache(texts)[1]
    lengths = seen.v.norm(dim=-1)  # (layer, batch, head, src)
    arrives = (seen.pattern * lengths[..., None, :]).sum(dim=-1)[..., 32:].mean(dim=(1, 3))
    ratios.append((arrives / lengths.mean(dim=(1, 3))).flatten())
pictures.matrix(
    torch.stack(ratios),
    rows=["two-layer", "curriculum"],
    columns=[f"{layer}.{head}" for layer in range(2) for head in range(4)],
    axes=("model", "head (layer.head)"),
    title="Length of what arrives, relative to an average value",
    diverging=False,
)

# %% [markdown]
# Take the head with the smallest ratio. On the left its plain pattern, on the right the weighed one (divided
# by the mean length of its values, so that both can share one scale of colors).

# %% demo
which, flat = divmod(int(torch.stack(ratios).argmin()), 8)
resting, layer, head = list(trained.values())[which], flat // 4, flat % 4
piece = texts[4, :18]
seen = resting.run_with_cache(piece)[1]
plain, lengths = seen.pattern[layer, head], seen.v[layer, head].norm(dim=-1)
weighed = (plain * lengths / seen.v[layer, head].norm(dim=-1).mean()).clamp(max=1)
pictures.patterns(
    torch.stack([plain, weighed]),
    resting.tokenizer.token_strings(piece),
    titles=[f"head {layer}.{head}: attention", "weighed by value"],
    columns=2,
)

# %% [markdown]
# Where does it rest? These are the tokens that draw most of its attention over all texts, with the length of
# their values. The dashed line is the average value.

# %% demo
seen = resting.run_with_cache(texts)[1]
drawn = seen.pattern[layer, :, head].sum(dim=1).flatten()  # attention received by each token
size = seen.v[layer, :, head].norm(dim=-1).flatten()
ids = texts.flatten()
total = torch.zeros(resting.d_vocab).index_add(0, ids, drawn)
favorites = total.topk(12).indices
pictures.bars(
    torch.stack([size[ids == i].mean() for i in favorites]),
    resting.tokenizer.token_strings(favorites),
    x_label="the tokens that draw most attention, most first",
    y_label="length of their values",
    title=f"Where head {layer}.{head} looks most",
    levels={"average": float(size.mean())},
)

# %% [markdown]
# Most of the favorites have short values. The head waits on frequent tokens that carry little for it. In the
# paper's models heads rest on the first token of a text; many libraries put a special token there. Our models
# never had such a token in training, and they found another place. So "the first column is the resting
# place" is a habit of some models, not a law. The value lengths tell you in any model.
#
# **Question.** *Could a head hide something from the weighed picture as well?*
#
# <details><summary>Answer</summary>
#
# Yes. The length of $v_j$ is taken before $W_O$, and $W_O$ can stretch one direction and shrink another. Some
# people weigh by $\lVert v_j W_O \rVert$ instead. And a long vector may point in a direction that nobody
# reads. A picture of sizes never says what is done with them.
#
# </details>

# %% [markdown]
# ### Question: Three ways to be wrong
#
# *15 minutes · 3 points, marked by a person*
#
# Somebody tells you: "In this model head 3 of layer 0 has a direct attribution of almost zero, so we can prune it."
# Write down three different ways in which that can be wrong, and for each the measurement of this notebook that would show it.
#
# Write your answer into the next cell: double-click it, replace the words that stand there, press Shift+Enter.
# No program judges it. In a class a person does. Alone, mark it yourself by `solution("three_ways_to_be_wrong")`.

# %% question [markdown] name="three_ways_to_be_wrong" points=3
# ### BEGIN SOLUTION
# **A good answer** has three of these.
#
# - The head may matter through the *values* that later heads carry on: a row of `virtual_head_importance`, or the columns
#   "via" of section 7.
# - It may matter through the *patterns* of later heads (K- or Q-composition). Frozen measures miss that; take the head out and
#   run everything anew.
# - An average near zero may hide large effects of both signs: look at positions one by one, as `direct_logit_attribution`
#   returns them.
# - What it wrote may have been erased by a later part, or said once more by another: the sum over columns in section 7, or an
#   ablation of both.
#
# **Marking guide**
#
# - **1 point**: a first way, with a measurement that would show it.
# - **1 point**: a second way, different in kind, with its measurement.
# - **1 point**: a third one. If all three are about values, at most two points: patterns must not be forgotten.
# ### END SOLUTION

# %% [markdown]
# ## What you have shown
#
# | the paper says | you built |
# |---|---|
# | Paths sorted by order: the direct path, single heads, virtual heads, each with its worth in nats. | `term_importance` |
# | A layer's worth depends on what is there already: 1.3 nats or 0.05. | `marginal_effect` |
# | A single virtual head adds little, so one may first look at single heads. | `virtual_head_importance`, with one loud exception |
# | Parts of the stream can be read out directly. Later work: erased parts make that misleading. | `direct_logit_attribution` |
# | Heads rest where values are small, so weigh a pattern by values. | `value_weighted_pattern` |
#
# Three habits to take along. Say what a term is added to. Test frozen patterns in the middle, not at the end.
# And when a number surprises you, look at the heads behind it before you explain it.
#
# **Next:** [07 · beyond](../07-beyond/07-beyond.ipynb) leaves the simplified models: MLPs, LayerNorm, biases, and how to bring in a model that
# somebody else has trained.

# %%
progress()
