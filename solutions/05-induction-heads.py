# %% [markdown]
# # 05 · Induction heads: the first algorithm that two layers can run
#
# In notebook 03 a single layer could connect tokens that it had seen together in training. In notebook
# 04 you saw what a second layer adds: heads that read what other heads wrote. Now you meet the thing
# that trained models build from it. It is short enough to say in one line:
#
# > [a][b] … [a] → [b]: *if the present token was here before, look at what came after it, and say
# > that again.*
#
# A head that does this is called an **induction head**. It works for tokens that never occurred together
# in training, because it does not look anything up in its weights. It looks in the text.
#
# **After this notebook you can**
#
# - see an induction head at a glance, and measure it so that look-alikes do not pass;
# - prove from the weights, and by taking heads out, how it works;
# - write one by hand, in two different ways;
# - train a small model and watch the induction head appear, within a few dozen steps.
#
# **Time:** about five hours, in pieces if you like. **It builds on** notebooks 02 to 04. In the
# [paper](https://transformer-circuits.pub/2021/framework/index.html) you are in "Two-Layer
# Attention-Only Transformers", from "Induction Heads" on. The second half of the story is told in
# [In-context Learning and Induction
# Heads](https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads/index.html) (2022).
#
# As before: `check(name)` judges your function, `hint(name)` gives one hint at a time, and
# `solution(name)` shows our way once you have passed.

# %%
import torch
import torch.nn.functional as F

from grader import check, hint, lab, models, progress, solution
from grader.lab import live, pictures
from grader.models.recipes import live as recipe
from grader.transformer import Transformer

# %% [markdown]
# ## 1 · Seeing
#
# The course ships a two-layer model, `"two-layer-curriculum"`, that was trained on text and on rows of
# random tokens that repeat. Give it a text with an invented name, twice. The name is new to the model, and
# falls into pieces. The picture shows one of its heads, seen from the last token, in the middle of the name.

# %% demo
model = models.load("two-layer-curriculum")
text = "Mr Zorblatt met Mrs Quelch. She said to Mr Zor"
ids = model.tokenizer.encode(text)
words = model.tokenizer.token_strings(ids)
pattern = model.run_with_cache(ids)[1].pattern[1]
last = len(words) - 1
found = next(i for i in range(last) if words[i].strip() == words[last].strip())
head = int(pattern[:, last, found + 1].argmax())
pictures.attention_flow(
    pattern[head], words, destination=last, title=f"Head 1.{head}: what came after it last time?"
)

# %% [markdown]
# The destination is the last token. The thick line leads to the token that stood *after* its earlier
# copy. That is the next piece of the name, and the one that the head then makes likelier.
#
# Real text is a poor place to study this. Grammar, topic and frequent pairs all help to predict, so one
# never knows what a head was good for. The cure is text in which nothing else can help: **random tokens
# that repeat**. The first copy cannot be predicted by anybody. From the second copy on, everything can
# be, but only by looking back.
#
# ### Exercise: Random tokens that repeat
#
# *10 minutes · difficulty 1 of 3 · 2 points*
#
# Draw `period` random tokens and lay `repeats` copies of them end to end. No token may come twice inside
# a period. If it did, it would have two different successors, and its earlier copy would not settle what
# comes next. (Draw 50 tokens at random out of 1,000, and the chance that some token comes twice is 71 in
# 100. So this is not a detail.) There is no start token. The same seed gives the same tokens, every id
# from 0 to `d_vocab − 1` can occur, and the global random generators stay untouched.


# %% answer
def repeated_tokens(d_vocab, period, repeats, seed):
    """Random tokens that repeat.

    d_vocab: ids are 0 … d_vocab − 1
    period: how many distinct tokens, at most d_vocab; repeats: how many copies of them
    seed: the same seed gives the same tokens
    → (period · repeats,) int64
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    keys = torch.rand(d_vocab, generator=generator)  # shuffling: sort the ids by random keys
    once = keys.argsort()[:period]
    return torch.cat([once] * repeats)
    ### END SOLUTION


# %% check
check(repeated_tokens)

# %% [markdown]
# Here are all eight heads of the model on three copies of ten random tokens. Nobody told the model that
# this text would repeat.

# %% demo
g = torch.Generator().manual_seed(1)
once = torch.randperm(model.d_vocab, generator=g)[:10]
striped = model.run_with_cache(once.repeat(3))[1].pattern
pictures.patterns(striped)

# %% [markdown]
# Look at the lower row. Up to position 9 there is nothing to be found. Then a **stripe** begins, parallel
# to the diagonal. In the third copy, from position 20 on, there are two places to look, and the heads choose
# now the one, now the other. A stripe at a distance from the diagonal looks like "so many steps back,
# whatever stands there". But nobody asked for a number of steps. It is the *text* that repeats after ten
# tokens, and the heads follow it: with a period of 13 the stripes would stand elsewhere.
#
# In the upper row look for a line right *beside* the diagonal: a head that always looks one token back. It
# will turn out that the heads below cannot do without it.
#
# ### The loss falls where the text begins to repeat
#
# Another way to see it is to ask how well each position is predicted. The picture shows the loss at each
# position on two copies of 40 random tokens, averaged over 16 texts.

# %% demo
texts = torch.stack([torch.randperm(model.d_vocab, generator=g)[:40].repeat(2) for _ in range(16)])
curves = {}
for name in ("one-layer", "two-layer", "two-layer-curriculum"):
    log_probs = models.load(name)(texts)[:, :-1].log_softmax(dim=-1)
    curves[name] = -log_probs.gather(-1, texts[:, 1:, None])[..., 0].mean(dim=0)
uniform = float(torch.tensor(float(model.d_vocab)).log())
pictures.lines(
    curves,
    x_label="position of the prediction",
    y_label="loss (nats)",
    title="Random tokens, the second copy from position 40",
    levels={"all tokens alike": uniform},
)

# %% [markdown]
# All three are worse than a model that knows nothing in the first copy: they expect text, and this is
# none. What happens after position 40 tells them apart. The curriculum model falls to almost nothing.
# The two-layer model that has only ever seen text improves clearly, and stays far from perfect. (In
# section 4 you will see that it has an induction head all the same. It is alone, and others shout it
# down.)
#
# ### Exercise: The loss at each position
#
# *8 minutes · difficulty 1 of 3 · 2 points*
#
# You have averaged this loss over positions in notebook 01. Here keep one number for each prediction.
# Entry `i` is the loss of predicting token `i + 1`, so there is one entry less than there are tokens.


# %% answer
def loss_by_position(logits, tokens):
    """The loss, in nats, of each prediction.

    logits (pos, d_vocab), tokens (pos,)
    → (pos − 1,): entry i is the loss of predicting token i + 1
    """
    ### BEGIN SOLUTION
    predicting, predicted = logits[:-1], tokens[1:]
    true_logit = predicting.gather(-1, predicted[:, None]).squeeze(-1)
    return predicting.logsumexp(dim=-1) - true_logit
    ### END SOLUTION


# %% check
check(loss_by_position)

# %% [markdown]
# ### Exercise: How much the context helps
#
# *4 minutes · difficulty 1 of 3 · 1 point*
#
# A later token of a text has more context than an earlier one. How much does that help? The paper of 2022
# compares two positions, the 500th token and the 50th, and calls the difference the **in-context learning
# score**: the *late* loss minus the *early* loss. A model that uses its context gets a negative number.
# (The same paper then speaks of "0.4 nats of in-context learning" with the sign turned. Whoever compares
# numbers must ask which way round.) `early` and `late` are places in `losses`, counted from 0.


# %% answer
def in_context_learning_score(losses, early, late):
    """How much better a late token is predicted than an early one; negative is good.

    losses (pos − 1,): the loss of each prediction, in nats
    early, late: places in losses, counted from 0
    → one number
    """
    ### BEGIN SOLUTION
    return losses[late] - losses[early]
    ### END SOLUTION


# %% check
check(in_context_learning_score)

# %% [markdown]
# On real text it looks like this. The curves are averaged over many stretches of held-out code, documentation and
# English, in steps of ten positions. In brackets: the mean loss late in the text less that near the beginning.

# %% demo
kinds = ("code", "docs", "english")
held_out = [models.sample_tokens(kind) for kind in kinds]
held_out = torch.cat([ids[: len(ids) // 256 * 256].reshape(-1, 256)[:24] for ids in held_out])
curves = {}
for name in ("one-layer", "two-layer", "two-layer-curriculum"):
    log_probs = models.load(name)(held_out)[:, :-1].log_softmax(dim=-1)
    losses = -log_probs.gather(-1, held_out[:, 1:, None])[..., 0].mean(dim=0)
    score = losses[200:250].mean() - losses[20:50].mean()
    curves[f"{name} ({score:.2f})"] = losses[:250].reshape(-1, 10).mean(dim=1)
pictures.lines(
    curves,
    x=list(range(5, 255, 10)),
    x_label="position in the text",
    y_label="loss (nats per token)",
    title="Held-out text; in brackets: late loss minus early loss",
)

# %% [markdown]
# At the beginning all three improve: a few lines tell what kind of text it is. After that the model with one
# layer is nearly flat. The two with induction heads go on improving, and the one with the strongest induction heads
# improves most, although its loss as a whole is the highest: part of its training went into random tokens, and it
# knows less about text than the others.
#
# **Question.** *Even the model with one layer gains a little from a longer context. How can it?*
#
# <details><summary>Answer</summary>
#
# A head that copies raises every token that has already occurred: in code, a name that was used once is
# likely to be used again. That needs no second layer. What one layer can't do is to say *when*: after which
# token the name comes. So it gains little.
#
# </details>

# %% [markdown]
# ## 2 · Naming
#
# A stripe is easy to see and easy to misread. To find induction heads in a large model you need numbers,
# and there are several ways to be off by one. So first draw what we are looking for, on three copies of
# four tokens. Each panel is an ideal head.

# %% demo
letters = list("abcdabcdabcd")
back = torch.arange(12)[:, None] - torch.arange(12)
kinds = {
    "previous token": back == 1,
    "duplicate token": (back > 0) & (back % 4 == 0),
    "induction": (back > 0) & (back % 4 == 3) & (back < torch.arange(12)[:, None]),
    "one before the copy": (back > 4) & (back % 4 == 1),
}
ideal = torch.stack([looked.float() for looked in kinds.values()])
ideal[..., 0] += (ideal.sum(dim=-1) == 0).float()  # those who find nothing rest on position 0
pictures.patterns(ideal / ideal.sum(dim=-1, keepdim=True), letters, titles=list(kinds), columns=4)

# %% [markdown]
# Take the third panel and put your finger on the second “b”, row 5. It looks at column 2, the first “c”:
# what came after the first “b”. That is *three* steps back, one less than the period. A duplicate-token
# head looks four steps back, at the “b” itself. The last panel is what you get if you read an early
# wording of the paper of 2022 to the letter; it was corrected later. By that rule a perfect induction head
# scores 0.
#
# In rows 8 to 11 there are two earlier copies. A head may look after the first, after the second, or share
# its attention among them. All three are prefix matching.
#
# ### Exercise: A score for previous-token heads
#
# *5 minutes · difficulty 1 of 3 · 1 point*
#
# Begin with the easy one. How much attention goes to the position just before, on average over all
# destinations that have one?


# %% answer
def previous_token_score(pattern):
    """The mean attention to the position just before, over destinations 1 … pos − 1.

    pattern (dst, src): one head's attention
    → one number
    """
    ### BEGIN SOLUTION
    destinations = torch.arange(1, len(pattern))
    return pattern[destinations, destinations - 1].mean()
    ### END SOLUTION


# %% check
check(previous_token_score)

# %% [markdown]
# ### Exercise: A score for prefix matching
#
# *20 minutes · difficulty 2 of 3 · 4 points*
#
# The tokens are `repeated_tokens` with the given period (at least 3), without a start token. For every
# destination in the second copy or later, add up the attention on all earlier sources that stand one after
# a copy of the present token: those with $(\text{dst} - \text{src}) \bmod \text{period} = \text{period} - 1$.
# Then take the mean over those destinations. The text may break off inside a copy.
#
# Note the two steps. *Inside* a row you add, because a head may share its attention among several copies.
# *Over* rows you average, and rows of the first copy do not count.


# %% answer
def prefix_matching_score(pattern, period):
    """How much a head looks at what came after earlier copies of the present token.

    pattern (dst, src): one head's attention on random tokens that repeat; no start token
    period: after how many tokens they repeat, at least 3 and less than pos
    → one number between 0 and 1
    """
    ### BEGIN SOLUTION
    pos = len(pattern)
    total = 0.0
    for steps_back in range(period - 1, pos, period):  # after the latest copy, the one before it, …
        stripe = pattern.diagonal(-steps_back)  # its first entry belongs to dst = steps_back
        total = total + stripe[max(0, period - steps_back) :].sum()
    return total / (pos - period)
    ### END SOLUTION


# %% check
check(prefix_matching_score)

# %% [markdown]
# **What you showed.** A definition in words ("attends to the token after an earlier copy") became a number
# that can be computed for a thousand heads. It is also a definition that you can now be exact about: which
# rows, which sources, summed or averaged.
#
# **Try this.** An induction head that finds nothing rests on position 0. What does the score say for the
# ideal heads above if you use another period than the text has?

# %%
back = torch.arange(12)[:, None] - torch.arange(12)
induction = ((back > 0) & (back % 4 == 3) & (back < torch.arange(12)[:, None])).float()
induction[:4, 0] = 1.0
induction = induction / induction.sum(dim=1, keepdim=True)
# print([float(prefix_matching_score(induction, period)) for period in (3, 4, 5)])

# %% [markdown]
# ### Looking is half of it
#
# Prefix matching says where a head looks. An induction head must also *do* the right thing with what it
# finds: raise it. In large models there are heads that look at exactly the right place and **lower** what
# they see. Their prefix matching is near 1, and they are the opposite of an induction head.
#
# ### Exercise: Does it raise what it looks at?
#
# *15 minutes · difficulty 2 of 3 · 3 points*
#
# A head's direct effect on the logits is its output, sent through the unembedding:
# `pattern @ x @ W_V @ W_O @ W_U`. Only differences within a row of logits matter, so take the mean of each
# row off. Now look at each destination: which source does it attend to most, which token stands there, and
# is that token's logit positive? Return the share of destinations at which it is. (A head without any order
# gets about one half.)


# %% answer
def copying_effect(pattern, x, W_V, W_O, W_U, tokens):
    """The share of destinations at which a head raises the token it looks at most.

    pattern (dst, src), x (pos, d_model): the stream that the head reads
    W_V (d_model, d_head), W_O (d_head, d_model), W_U (d_model, d_vocab), tokens (pos,)
    → one number between 0 and 1
    """
    ### BEGIN SOLUTION
    logits = pattern @ (x @ W_V @ W_O @ W_U)
    looked_at = tokens[pattern.argmax(dim=1)]
    rows = torch.arange(len(tokens))
    raised = logits[rows, looked_at] > logits.mean(dim=1)
    return raised.float().mean()
    ### END SOLUTION


# %% check
check(copying_effect)

# %% [markdown]
# Here are both scores of every head of the two trained models, on four copies of 25 random tokens. (For
# copying the picture uses the eigenvalues of the full OV circuit, which you know from notebook 03.) Induction
# heads are the rows in which *both* numbers of a model are large.


# %% demo
def matching_and_copying(model, period=25, copies=4, texts=4):
    g = torch.Generator().manual_seed(0)
    tokens = torch.stack(
        [torch.randperm(model.d_vocab, generator=g)[:period] for _ in range(texts)]
    )
    pattern = model.run_with_cache(tokens.repeat(1, copies))[1].pattern
    back = torch.arange(period * copies)[:, None] - torch.arange(period * copies)
    after = (back > 0) & (back % period == period - 1)
    matching = (pattern * after)[..., period:, :].sum(dim=-1).mean(dim=(1, 3))
    small = (model.W_O @ model.W_U) @ (
        model.W_E @ model.W_V
    )  # same eigenvalues as the full OV circuit
    values = torch.linalg.eigvals(small)
    return matching, values.real.sum(dim=-1) / values.abs().sum(dim=-1)


scores = [*matching_and_copying(models.load("two-layer")), *matching_and_copying(model)]
pictures.matrix(
    torch.stack([score.flatten() for score in scores], dim=1),
    rows=[f"head {i // 4}.{i % 4}" for i in range(8)],
    columns=["text match", "text copy", "curriculum match", "curriculum copy"],
    axes=("layer.head", "model and score"),
    title="Prefix matching and copying in two models",
)

# %% [markdown]
# All heads of layer 1 in the curriculum model are of the kind. The model trained on text has one, whose prefix
# matching is half way: it has not finished growing. All others fail at least one of the two scores clearly. (In the
# paper's two-layer model, with twelve heads a layer, six were clearly induction heads.)
#
# ### Exercise: Find the induction heads
#
# *25 minutes · difficulty 3 of 3 · 4 points*
#
# Write a detector. It gets a model and returns the list of its induction heads as pairs (layer, head), in
# any order, possibly empty. It is judged on models whose weights we wrote by hand, so the truth is known.
# Some of their heads are built to deceive: they look at the earlier copy itself, look back by a fixed number
# of steps, copy without looking, or look rightly and *lower* what they find. Induction heads there have a
# prefix matching of 0.7 or more and clearly copy. All others fail one of the two by a wide margin: prefix
# matching at most 0.2, or no copying at all.
#
# Models come in all sizes. Take the period and the length of the text from `model.d_vocab` and
# `model.n_ctx`. Your functions from above will be of use.


# %% answer
def find_induction_heads(model):
    """The heads that look at what came after an earlier copy, and raise it.

    model: a Transformer of any depth
    → list of (layer, head), in any order, possibly empty
    """
    ### BEGIN SOLUTION
    period = min(model.d_vocab, model.n_ctx // 2, 12)
    repeats = model.n_ctx // period
    texts = [repeated_tokens(model.d_vocab, period, repeats, seed) for seed in range(2)]
    caches = [model.run_with_cache(tokens)[1] for tokens in texts]
    found = []
    for layer in range(model.n_layers):
        for head in range(model.n_heads):
            W_V, W_O = model.W_V[layer, head], model.W_O[layer, head]
            matching, copying = 0.0, 0.0
            for tokens, cache in zip(texts, caches, strict=True):
                pattern, x = cache.pattern[layer, head], cache.stream[layer]
                matching += float(prefix_matching_score(pattern, period)) / 2
                copying += float(copying_effect(pattern, x, W_V, W_O, model.W_U, tokens)) / 2
            if matching > 0.45 and copying > 0.75:
                found.append((layer, head))
    return found
    ### END SOLUTION


# %% check
check(find_induction_heads)

# %% [markdown]
# **What you showed.** It takes both scores. This is how people look for induction heads in models with
# thousands of heads.
#
# **Try this.** What does your detector say about the trained models? Take the `#` away once it has passed.

# %%
# for name in ("one-layer", "two-layer", "two-layer-curriculum"):
#     print(name, find_induction_heads(models.load(name)))

# %% [markdown]
# ## 3 · How can it work at all?
#
# Stop and think about what an induction head has to do. At the second “b” it must look at the first “c”. It
# knows that it stands on a “b”. But in the first “c” there is nothing about a “b”: its embedding says “c”
# and its position says 2. A head of one layer compares two tokens; here the tokens to compare are the
# present one and the one **before** the source. So a single layer cannot do it.
#
# Unless somebody has already written into the stream, at the position of the “c”, that the token before
# was a “b”. That is what the previous-token head of layer 0 is for.

# %% demo
pictures.stream_diagram(
    [["0.0: one back", "0.1"], ["1.0: induction", "1.1"]],
    path=[(0, 0), (1, 0)],
    title="K-composition: head 1.0 finds its keys in what head 0.0 wrote",
)

# %% [markdown]
# In steps:
#
# 1. Layer 0, at the source: look one back, and write "before me stood a **b**" into the stream.
# 2. Layer 1, at the destination: the query says "I am a **b**". The key at the source says "before me stood
#    a **b**". They match.
# 3. The value is the plain token at the source, **c**. The head raises it.
#
# In the words of notebook 04: the keys of layer 1 read what layer 0 wrote, which is **K-composition**. The
# query and the value read the embedding.

# %% [markdown]
# ## 4 · Proving
#
# A picture and a story are not a proof. The story makes three claims that can be tested: one about the
# weights, one about what happens without a head, and one about which input of layer 1 matters.
#
# ### The weights
#
# If the story is true, then the query of a token and the key *made by the previous-token head from that same
# token* must fit. Write the keys of all tokens as that head hands them on:
#
# $$ \underbrace{W_E W_Q}_{\text{queries}} \; \big(\underbrace{W_E\, W_{OV}^{\text{prev}}\, W_K}_{\text{keys}}\big)^{T} \;=\; W_E\, W_Q W_K^{T}\, \big(W_{OV}^{\text{prev}}\big)^{T}\, W_E^{T} $$
#
# This is a table with a row for each token as the query, and a column for each token that stood before
# the source. It is the QK circuit of notebook 03 with one more matrix inside. (In the paper's column
# convention: $W_E^T W_{QK} W_{OV}^{\text{prev}} W_E$. The table is the same.)
#
# ### Exercise: The QK circuit through a previous-token head
#
# *10 minutes · difficulty 2 of 3 · 2 points*
#
# Compute this table. `W_Q` and `W_K` belong to the later head, `W_OV_previous` to the earlier one. It is a
# circuit, so nothing is divided.


# %% answer
def k_composed_qk(W_E, W_Q, W_K, W_OV_previous):
    """How well each query token fits each token that stood before a source.

    W_E (d_vocab, d_model); W_Q, W_K (d_model, d_head) of the later head
    W_OV_previous (d_model, d_model) of the earlier head
    → (d_vocab, d_vocab): row = query token, column = token before the source; not divided
    """
    ### BEGIN SOLUTION
    queries = torch.einsum("vd,dh->vh", W_E, W_Q)
    handed_on = torch.einsum("vd,de->ve", W_E, W_OV_previous)  # what the earlier head writes
    keys = torch.einsum("ve,eh->vh", handed_on, W_K)
    return torch.einsum("ah,bh->ab", queries, keys)
    ### END SOLUTION


# %% check
check(k_composed_qk)

# %% [markdown]
# If a head looks for its own token, the diagonal of this table stands out. With 2,048 tokens the table has
# four million entries, so we do as in notebook 03 and ask for the eigenvalues. If all are positive, the head
# wants *the same* token before the source.
#
# ### Exercise: Does it look for its own token?
#
# *15 minutes · difficulty 2 of 3 · 3 points*
#
# Return $\operatorname{Re} \sum_i \lambda_i \,/\, \sum_i |\lambda_i|$ for the eigenvalues of the table, without
# making the table. Like every circuit of one head it has rank d_head at most, so a small matrix has all of its
# eigenvalues that are not zero. One of the cases has 600 tokens and allows less memory than the full table takes.


# %% answer
def matching_score(W_E, W_Q, W_K, W_OV_previous):
    """Re Σλ / Σ|λ| of the table of `k_composed_qk`, from its factors.

    W_E (d_vocab, d_model); W_Q, W_K (d_model, d_head) of the later head
    W_OV_previous (d_model, d_model) of the earlier head
    → one number between −1 and 1
    """
    ### BEGIN SOLUTION
    queries = W_E @ W_Q
    keys = W_E @ W_OV_previous @ W_K
    # queries @ keys.T and keys.T @ queries share their non-zero eigenvalues.
    eigenvalues = torch.linalg.eigvals((keys.T @ queries).double())
    return eigenvalues.sum().real / eigenvalues.abs().sum()
    ### END SOLUTION


# %% check
check(matching_score)

# %% [markdown]
# Now in the model that was trained on text alone. It has one head with a high prefix matching. The picture
# shows the eigenvalues of its *plain* QK circuit, and of the circuit through each head of layer 0.

# %% demo
textual = models.load("two-layer")
E = textual.W_E
best = int(matching_and_copying(textual)[0][1].argmax())
Q, K = textual.W_Q[1, best], textual.W_K[1, best]
through = {"plain QK": torch.linalg.eigvals((E @ K).T @ (E @ Q))}
for i in range(4):
    keys = E @ textual.W_V[0, i] @ textual.W_O[0, i] @ K
    through[f"via head 0.{i}"] = torch.linalg.eigvals(keys.T @ (E @ Q))
pictures.eigenvalues(through, title=f"Head 1.{best} of the model trained on text", columns=5)

# %% [markdown]
# Through one of the heads of layer 0 all eigenvalues lie to the right, far from the middle. And here is what
# makes it a finding: that head of layer 0 is the one that looks one token back. The two facts come from
# different sources. One was read off the weights, the other off the patterns.

# %% demo
g = torch.Generator().manual_seed(2)
tokens = torch.stack([torch.randperm(2048, generator=g)[:50] for _ in range(4)]).repeat(1, 2)
one_back = textual.run_with_cache(tokens)[1].pattern[0].diagonal(-1, -2, -1).mean(dim=(0, 2))
scores = torch.stack([v.real.sum() / v.abs().sum() for v in through.values()])[1:]
pictures.points(
    one_back,
    scores,
    labels=[f"head 0.{i}" for i in range(4)],
    x_label="attention to the previous token",
    y_label=f"matching score with head 1.{best}",
    title="Two measurements that know nothing of each other",
)

# %% [markdown]
# Every head of the model in this light: choose one, and what its keys read. The random head beside it shows how
# much order chance gives.

# %% demo
lab.eigenvalue_plane(textual, 1, best)

# %% [markdown]
# **Question.** *The plain QK circuit of an induction head has eigenvalues of both signs. Why is its score
# not near 1 as well?*
#
# <details><summary>Answer</summary>
#
# The plain circuit compares the present token with the *source itself*. An induction head has no wish that the
# two be equal: if it stands on “b” it looks at “c”, and which “c” is settled by the text. A head with a high
# score on the plain circuit looks at copies of its own token: a duplicate-token head.
#
# </details>
#
# ### What happens without it
#
# The second test is to take a head out and see what breaks. But "out" can mean several things, and they
# answer different questions:
#
# - **zero**: the head writes nothing. Everything after it runs anew and may look elsewhere.
# - **mean**: the head writes its own average, whatever the input. A constant that later layers have come to
#   rely on stays; only the *information* is gone.
# - **frozen**: the head writes nothing, but every pattern is kept as it was. Later heads look where they
#   looked. This takes away the head's path to the output, and leaves its influence on where others look.
#
# ### Exercise: Take a head out
#
# *25 minutes · difficulty 3 of 3 · 4 points*
#
# Write all three. `tokens` is (batch, pos) and `how` is `"zero"`, `"mean"` or `"frozen"`. The mean is taken over
# the batch *and* the positions of the clean run, so it is one vector of d_model numbers. Return the logits; the
# model that was given stays as it was. `model.run_with_cache(tokens)` gives the clean run. `model.qk_input(x)` is
# what queries and keys read, positions included; values read `x` itself.


# %% answer
def ablate_head(tokens, model, layer, head, how):
    """The logits without one head.

    tokens (batch, pos), model: a Transformer; layer, head: which head to take out
    how: "zero", "mean" (its mean over batch and positions takes its place), or "frozen" (zero, and
        every pattern is the clean run's)
    → logits (batch, pos, d_vocab)
    """
    ### BEGIN SOLUTION
    _, clean = model.run_with_cache(tokens)
    x = clean.stream[0]
    for i in range(model.n_layers):
        if how == "frozen":
            patterns = clean.pattern[i]
        else:
            read = model.qk_input(x)[:, None]  # (batch, 1, pos, d_model): the same for every head
            scores = (read @ model.W_Q[i]) @ (read @ model.W_K[i]).mT / model.d_head**0.5
            visible = torch.ones_like(scores, dtype=torch.bool).tril()
            patterns = torch.where(visible, scores, -torch.inf).softmax(dim=-1)
        written = (
            patterns @ (x[:, None] @ model.W_V[i]) @ model.W_O[i]
        )  # (batch, head, pos, d_model)
        if i == layer:
            kept = torch.arange(model.n_heads) != head
            written = written[:, kept]
            if how == "mean":
                average = clean.head_out[layer][:, head].mean(dim=(0, 1))
                x = x + average
        x = x + written.sum(dim=1)
    return x @ model.W_U
    ### END SOLUTION


# %% check
check(ablate_head)

# %% [markdown]
# The picture shows the loss of the curriculum model on the second copy of random tokens, with each head
# taken out in turn, in two ways.


# %% demo
def second_copy_loss(logits, tokens, period):
    log_probs = logits[:, period:-1].log_softmax(dim=-1)
    return -log_probs.gather(-1, tokens[:, period + 1 :, None]).mean()


clean, cache = model.run_with_cache(tokens)
losses = torch.zeros(2, 8)
for i in range(8):
    W_O = model.W_O.clone()
    W_O[i // 4, i % 4] = 0.0  # a head that writes nothing
    losses[0, i] = second_copy_loss(model.with_weights(W_O=W_O)(tokens), tokens, 50)
    x = cache.stream[0]
    for layer in (0, 1):  # the same with every pattern frozen
        x = x + (cache.pattern[layer] @ (x[:, None] @ model.W_V[layer]) @ W_O[layer]).sum(dim=1)
    losses[1, i] = second_copy_loss(x @ model.W_U, tokens, 50)
pictures.matrix(
    losses,
    rows=["zero: rest anew", "frozen patterns"],
    columns=[f"without {i // 4}.{i % 4}" for i in range(8)],
    axes=("ablation", "head that is taken out"),
    title=f"Loss on the second copy (whole model: {second_copy_loss(clean, tokens, 50):.2f})",
    diverging=False,
)

# %% [markdown]
# Read it column by column. Take out head 0.1, which looks one back, and induction is gone, although this
# head copies nothing to the output. Its whole work is to tell others where to look. In the second row, with the
# patterns frozen, the others are *told* where to look, and the same head is not missed at all. That difference is
# composition, measured.
#
# Head 0.3 matters as well. In the picture of section 1 it looks at itself. So it carries nothing from one position
# to another: it rewrites each token's own vector into the form in which layer 1 reads it, like a second embedding.
#
# Taking out one induction head does less. There are four, and they say the same thing. A single ablation
# understates a head that has colleagues. In larger models some heads even *change* their work when another is gone
# (see notebook 07).
#
# ### Which input of layer 1 matters
#
# Third test: let one input of layer 1 read the embedding only, as in `knock_out_composition` of notebook 04. If the
# story is right, then only the keys need something from *another* position. The test is made twice: with the
# bare embedding, and with the embedding as the head that looks at itself has rewritten it.


# %% demo
def accuracy_with_cut(model, tokens, cut, period, rewritten):
    _, cache = model.run_with_cache(tokens)
    itself = int(cache.pattern[0].diagonal(0, -2, -1).mean(dim=(0, 2)).argmax())  # looks at itself
    own = cache.stream[0] + rewritten * cache.head_out[0][:, itself]
    streams = {kind: own if kind == cut else cache.stream[1] for kind in "QKV"}
    q = model.qk_input(streams["Q"])[:, None] @ model.W_Q[1]
    k = model.qk_input(streams["K"])[:, None] @ model.W_K[1]
    scores = q @ k.mT / model.d_head**0.5
    pattern = scores.masked_fill(torch.ones(100, 100).triu(1).bool(), -torch.inf).softmax(dim=-1)
    out = pattern @ (streams["V"][:, None] @ model.W_V[1]) @ model.W_O[1]
    guesses = ((cache.stream[1] + out.sum(dim=1)) @ model.W_U).argmax(dim=-1)
    return (guesses[:, period:-1] == tokens[:, period + 1 :]).float().mean()


pictures.matrix(
    [[accuracy_with_cut(model, tokens, cut, 50, r) for cut in ("", *"QKV")] for r in (0, 1)],
    rows=["the embedding", "and head 0.3"],
    columns=["nothing cut", "Q cut", "K cut", "V cut"],
    axes=("cut input reads", "input of layer 1"),
    title="Share that is right on the second copy",
    diverging=False,
)

# %% [markdown]
# With the keys cut, nothing is left, in both rows. With queries or values cut down to the bare embedding the model
# suffers too. But give them back what each position says about *itself*, and they are as good as new. So it is as the
# story says: of the three inputs only the keys need what was carried over from another position.

# %% [markdown]
# Three tests, three times the same answer. That is how a story becomes knowledge.
#
# Be fair to the doubts, too. For a larger model, people have measured how much of an induction head's work
# this simple story explains. The first answer was about one third, and a refined story, with more than one way
# to recognize what came before, brought it to nearly nine tenths
# ([causal scrubbing](https://www.lesswrong.com/posts/j6s9H9SHrEhEfuJnq/causal-scrubbing-results-on-induction-heads)).
# Notebook 07 comes back to this.

# %% [markdown]
# ## 5 · Building
#
# What you can build you have understood. In this section you write an induction head by hand, with no training
# at all, and it will work on tokens it has never seen, because there are none that it *has* seen.
#
# ### First brick: look one back
#
# A head that looks one back uses positions only. With one direction for each position it would be easy: match
# position $i$ with position $i-1$. But a model has many more positions than directions. So put the positions on a
# **circle**. Position $p$ gets the point at angle $\theta p$: two numbers, however many positions there are.
#
# The dot product of two points of the circle depends only on the angle between them, and is largest if they
# are equal. If the query is the position's own point, each position looks at itself. Turn the query back by
# $\theta$, and it falls on the key of the position before.

# %% demo
angle = 2 * torch.pi * torch.arange(24) / 24
points = torch.stack([angle.cos(), angle.sin()], dim=1)
turned = torch.stack([(angle - angle[1]).cos(), (angle - angle[1]).sin()], dim=1)
hidden = torch.ones(24, 24).triu(1).bool()
pictures.patterns(
    torch.stack(
        [
            (gain * query @ points.T).masked_fill(hidden, -torch.inf).softmax(dim=-1)
            for gain, query in ((5.0, turned), (300.0, points), (300.0, turned))
        ]
    ),
    titles=["turned back, small scores", "not turned, large scores", "turned back, large scores"],
    columns=3,
)

# %% [markdown]
# Neighbors on the circle are close together, so their scores differ by little. Only large weights make the
# head look at one of them alone.
#
# ### Exercise: Write a previous-token head
#
# *25 minutes · difficulty 3 of 3 · 4 points*
#
# Return `W_pos`, `W_Q` and `W_K` for a head that looks one back by position alone: if the content is zero, at
# least 0.95 of the attention of every destination from 1 on must be on the position before. `n_ctx` is up to 128 and
# may be larger than `d_model` and `d_head`, which are 2 or more. Remember that scores are divided by
# $\sqrt{d_\text{head}}$. It is judged in float64, so large numbers do no harm; answer in float64 yourself if you
# make them very large.


# %% answer
def previous_token_head(n_ctx, d_model, d_head):
    """A head that looks one back by position alone.

    n_ctx: number of positions, up to 128; d_model, d_head: at least 2, maybe fewer than n_ctx
    → tuple W_pos (n_ctx, d_model), W_Q (d_model, d_head), W_K (d_model, d_head)
    """
    ### BEGIN SOLUTION
    step = torch.tensor(torch.pi / n_ctx, dtype=torch.float64)  # half a circle is room enough
    angle = step * torch.arange(n_ctx)
    W_pos = torch.zeros(n_ctx, d_model, dtype=torch.float64)
    W_pos[:, 0], W_pos[:, 1] = angle.cos(), angle.sin()
    W_Q, W_K = torch.zeros(2, d_model, d_head, dtype=torch.float64)
    W_Q[0, 0] = W_Q[1, 1] = 1.0
    # A key one step ahead of its position: the position before then stands where the query is.
    W_K[0, 0] = W_K[1, 1] = step.cos()
    W_K[0, 1], W_K[1, 0] = step.sin(), -step.sin()
    gain = 12.0 / (1 - step.cos())  # one step aside costs 12 nats
    return W_pos, W_Q * gain * d_head**0.5, W_K
    ### END SOLUTION


# %% check
check(previous_token_head)

# %% [markdown]
# **What you showed.** Two dimensions are enough to tell 128 positions apart, if weights may be large. Trained
# models use several circles of different speeds (sinusoids). Then the scores need not be so extreme.
#
# ### The whole machine, by K-composition
#
# Now put two layers together. The stream may be as wide as you like, so give each kind of information
# directions of its own, as in section 9 of notebook 02:
#
# | group | says | written by | read by |
# |---|---|---|---|
# | here | which token stands here | embedding | values of layer 0; queries and values of layer 1 |
# | before | which token stood before | layer 0 | keys of layer 1 |
# | next | which token to predict | layer 1 | unembedding |
# | place | where we are | `W_pos` | queries and keys of layer 0 |
#
# There is one trap, and it has caught many. Position 0 has no position before it. Its attention must go
# somewhere, and there is only position 0 itself. So layer 0 writes at position 0: "before me stood the token
# that stands here". That is false. When the same token comes again, its query matches this false note, and
# position 0 draws attention that belongs to position 1.
#
# ### Exercise: Induction by K-composition, by hand
#
# *45 minutes · difficulty 3 of 3 · 5 points*
#
# Return a two-layer `Transformer`, or a dict of its seven weights, for `d_vocab` tokens and texts up to `n_ctx`.
# `d_model` and `d_head` are yours to choose. It is judged by what it does on `repeated_tokens` of every period from 3
# to min(d_vocab, n_ctx // 2), wherever the present token has been seen before: its likeliest next token must be
# right in 99 of 100 cases. And it must work *by keys alone*: if the keys of layer 1 read the embedding only, accuracy
# must fall below one half. If queries and values do so, it must stay. The two halves earn points separately.


# %% answer
def induction_by_k_composition(d_vocab, n_ctx):
    """A two-layer model that continues repeated tokens: keys of layer 1 read what layer 0 wrote.

    d_vocab: number of tokens, at least 3; n_ctx: longest text, at least 6
    → a Transformer, or a dict of its seven weights
    """
    ### BEGIN SOLUTION
    V, d_head = d_vocab, d_vocab + 1
    groups = torch.eye(3 * V + 4, dtype=torch.float64).split([V, V, V, 2, 1, 1])
    here, before, next_token, circle, always, first = groups
    column = torch.eye(d_head, dtype=torch.float64)
    by_token, by_first = column[:V], column[V:]  # columns of queries, keys and values

    place, Q_place, K_place = previous_token_head(n_ctx, 2, d_head)
    W_pos = place.double() @ circle + always
    W_pos[0] += first[0]

    sharp = 30.0 * d_head**0.5
    W_Q1 = here.T @ by_token - 2 * always.T @ by_first  # a match counts 1, position 0 counts −2
    W_K1 = before.T @ by_token + first.T @ by_first
    reads_token = here.T @ by_token
    return Transformer(
        W_E=here,
        W_U=next_token.T,
        W_pos=W_pos,
        W_Q=torch.stack([circle.T @ Q_place.double(), sharp * W_Q1])[:, None],
        W_K=torch.stack([circle.T @ K_place.double(), W_K1])[:, None],
        W_V=torch.stack([reads_token, reads_token])[:, None],
        W_O=torch.stack([by_token.T @ before, 10 * by_token.T @ next_token])[:, None],
    )
    ### END SOLUTION


# %% check
check(induction_by_k_composition)

# %% [markdown]
# **What you showed.** Induction needs no learned knowledge about any token. It is wiring.
#
# **Try this.** Look at your model's two patterns, and at position 0 of the second one. Take the term that keeps
# queries away from position 0 out again, and watch.

# %%
# mine = induction_by_k_composition(12, 24)
# tokens = repeated_tokens(12, 8, 3, seed=0)
# pictures.patterns(mine.run_with_cache(tokens)[1].pattern[:, 0], tokens.tolist(), titles=["0", "1"])

# %% [markdown]
# ### Another way: follow a pointer
#
# K-composition is not the only way to do induction. Here is one that puts the work into the **query**:
#
# 1. Layer 0, at the destination: look at the earlier copy of the present token, and write down **where** it
#    stands. A pointer.
# 2. Layer 1, at the destination: the query is that position, moved one step forward. The key is each position's
#    own. They match one after the copy.
#
# For this, a value must be able to carry a position, so positions must be *in the stream*. Our usual models
# (and the paper's) give them to queries and keys only. `Transformer(…, pos_in_stream=True)` makes a model whose
# stream starts as `W_E[tokens] + W_pos`; it is not added again later. The paper reports that heads of this kind
# were seen in GPT-2, whose positions are in the stream.

# %% demo
pictures.stream_diagram(
    [["0.0: same token"], ["1.0: one further"]],
    path=[(0, 0), (1, 0)],
    title="Q-composition: head 1.0 finds its query in what head 0.0 wrote",
)

# %% [markdown]
# Again there are traps. A token always equals itself, so layer 0 must be kept from pointing at its own position.
# And from the third copy on there are two earlier copies: a pointer that is the average of two positions may
# point at neither. Let layer 0 prefer one of them.
#
# ### Exercise: Induction by pointer arithmetic, by hand
#
# *45 minutes · difficulty 3 of 3 · 5 points*
#
# The same task with the roles of Q and K exchanged, and with positions in the stream: return a `Transformer` with
# `pos_in_stream=True`, or a dict with `"pos_in_stream": True` besides the seven weights. If the queries of layer 1 read
# the embedding only (with positions, which are part of it now), accuracy must fall below one half. If keys and values
# do so, it must stay.


# %% answer
def induction_by_pointer_arithmetic(d_vocab, n_ctx):
    """A two-layer model that continues repeated tokens: queries of layer 1 read what layer 0 wrote.

    d_vocab: number of tokens, at least 3; n_ctx: longest text, at least 6
    → a Transformer with pos_in_stream=True, or a dict of its seven weights and "pos_in_stream": True
    """
    ### BEGIN SOLUTION
    V, N, d_head = d_vocab, n_ctx, d_vocab + n_ctx + 1
    here, next_token, place, pointer = torch.eye(2 * V + 2 * N, dtype=torch.float64).split(
        [V, V, N, N]
    )
    by_token, by_place, by_ramp = torch.eye(d_head, dtype=torch.float64).split([V, N, 1])
    scale = d_head**0.5

    # Layer 0: the same token, not this place, and of several the latest. A later source gets 3 more for
    # each step; `strong` outweighs all steps together.
    strong, each = 3.0 * N + 20.0, torch.ones(N, 1, dtype=torch.float64)
    later = 3.0 * torch.arange(N, dtype=torch.float64)[:, None]
    same_token, same_place = here.T @ by_token, place.T @ by_place
    W_Q0 = strong * (same_token - same_place) + place.T @ each @ by_ramp
    W_K0 = same_token + same_place + place.T @ later @ by_ramp

    # Layer 1: the place after the one pointed at. A place here is one direction, so a step is a shift.
    one_further = torch.diag(torch.ones(N - 1, dtype=torch.float64), 1)
    W_Q1 = 30.0 * pointer.T @ one_further @ by_place
    return Transformer(
        W_E=here,
        W_U=next_token.T,
        W_pos=place,
        W_Q=scale * torch.stack([W_Q0, W_Q1])[:, None],
        W_K=torch.stack([W_K0, same_place])[:, None],
        W_V=torch.stack([same_place, same_token])[:, None],
        W_O=torch.stack([by_place.T @ pointer, 10 * by_token.T @ next_token])[:, None],
        pos_in_stream=True,
    )
    ### END SOLUTION


# %% check
check(induction_by_pointer_arithmetic)

# %% [markdown]
# **What you showed.** The same behavior, a different mechanism. Prefix matching and copying do not tell the two
# apart: they say *that* a head does induction. Only the composition tells *how*.
#
# **Question.** *You find a head with perfect prefix matching in some model. Which experiment decides between the
# two algorithms?*
#
# <details><summary>Answer</summary>
#
# Let its keys read the embedding only, then its queries. By K-composition the first kills it; by pointer arithmetic
# the second. The partners in layer 0 differ as well: a previous-token head in one case, a duplicate-token head in
# the other. And a model whose positions never enter the stream cannot do pointer arithmetic at all.
#
# </details>

# %% [markdown]
# Here is such a machine with its screws loose. Make the temperature higher, or let the first head look two
# back. Before you move a control, say what will break: the looking, the copying, or nothing?

# %% demo
lab.induction_workshop()

# %% [markdown]
# ## 6 · Training: the phase change
#
# Would a model find this by itself? It has to get two things right at once. A previous-token head alone earns
# nothing, and a head that looks for "before me stood …" earns nothing as long as nobody writes it. So for a while
# nothing seems to happen.
#
# Here is a task in miniature. A row is a 0, then P distinct tokens of 1 … 63 over and over, cut at 49 tokens, with
# another P, from 8 to 24, in each row. (With one P for all, a single layer could count P back.) `known` says
# which predictions can be made: those whose present token has been seen before in its row.


# %%
def induction_rows(rows, generator):
    """Fresh rows of the task: tokens (rows, 49), and known (rows, 48): can token i + 1 be known?"""
    periods = torch.randint(8, 25, (rows, 1), generator=generator)
    ids = 1 + torch.rand(rows, 63, generator=generator).argsort(dim=1)
    step = torch.arange(48).expand(rows, 48)
    tokens = torch.cat(
        [torch.zeros(rows, 1, dtype=torch.int64), ids.gather(1, step % periods)], dim=1
    )
    return tokens, step > periods


# %% [markdown]
# Run the next cell and watch. A two-layer model with two heads a layer learns this task before your eyes, in
# well under a minute. It has been set up so that the change comes soon. Below the loss you see how far any head
# matches prefixes by now.

# %% demo
watch = live.phase(
    title="Two layers, learning to repeat",
    y_label="loss on known tokens (nats)",
    levels={"63 tokens alike": 4.143},
)
trained_2, losses_2 = recipe.train_induction(0, 2, progress=watch, snapshot=watch.keep)
print(
    f"right on {100 * recipe.induction_accuracy(trained_2):.0f} in 100 known tokens of fresh rows"
)

# %% [markdown]
# There it is. At first the loss falls slowly toward 3 nats, which is what it takes to know that tokens of this row
# come again. Then it drops to almost nothing within a few dozen steps. The next cell trains the same model with one
# layer, and the one after it shows where the heads of the two-layer model look now.

# %% demo
trained_1, losses_1 = recipe.train_induction(0, 1)
smooth = {
    name: torch.tensor(losses).unfold(0, 5, 1).mean(dim=1)
    for name, losses in (("two layers", losses_2), ("one layer", losses_1))
}
pictures.lines(
    smooth,
    x=list(range(4, len(losses_2))),
    x_label="training step",
    y_label="loss on known tokens (nats)",
    title="The change needs two layers",
)

# %% demo
row = torch.cat([torch.zeros(1, dtype=torch.int64), 1 + torch.arange(12).repeat(3)])
pictures.patterns(trained_2.run_with_cache(row)[1].pattern)

# %% [markdown]
# Look for the line beside the diagonal in layer 0, and for the stripes in layer 1. Nobody asked for them.
# The run was kept step by step, so you can go back in it:

# %% demo
lab.phase_change(watch.snapshots)

# %% [markdown]
# ### Exercise: Watch induction heads form
#
# *45 minutes · difficulty 3 of 3 · 5 points*
#
# Now do it yourself. Train a model of `n_layers` layers on fresh rows of `induction_rows` (the cell above gives it to
# you) and return it with the list of its losses, one for each step: the mean loss on the known tokens of the batch. It must take at
# most a minute. It is judged by its accuracy on known tokens of fresh rows: at least 0.95 with two layers, and below 0.5
# with one, since one layer can't do it. Any size of model, any optimizer; the global generators may be used here.
#
# What helps: few dimensions (64), two heads, a learning rate near 0.005, and positions that make "one back" easy to
# find: fixed sinusoids with some fast ones among them, larger than the embedding. `model.parameters()` lists the
# weights; make those learn that should. Train on all tokens or on known ones, as you like.


# %% answer
def train_induction(seed, n_layers):
    """Train a model on `induction_rows`, at most a minute.

    seed: what everything random comes from; n_layers: 1 or 2
    → tuple (model, losses): a Transformer for 64 tokens and 49 positions, and the mean loss on known
      tokens at each step
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)

    def weight(*shape, scale):
        return (scale * torch.randn(*shape, generator=generator)).requires_grad_()

    speeds = 2.5 / 300 ** (torch.arange(32) / 32)  # radians a step: from 2.5 down to about 0.01
    angles = torch.arange(49)[:, None] * speeds
    into_head = (n_layers, 2, 64, 32)
    model = Transformer(
        W_E=weight(64, 64, scale=0.5),
        W_U=weight(64, 64, scale=0.125),
        W_pos=2.0 * torch.cat([angles.sin(), angles.cos()], dim=1),  # fixed
        W_Q=weight(*into_head, scale=0.125),
        W_K=weight(*into_head, scale=0.125),
        W_V=weight(*into_head, scale=0.125),
        W_O=weight(n_layers, 2, 32, 64, scale=0.125),
    )
    learned = [w for w in model.parameters() if w.requires_grad]
    adam = torch.optim.Adam(learned, lr=0.005, betas=(0.9, 0.98))
    losses = []
    for step in range(400):
        for group in adam.param_groups:
            group["lr"] = 0.005 * min(1.0, (step + 1) / 50)
        tokens, known = induction_rows(32, generator)
        each = F.cross_entropy(model(tokens)[:, :-1].mT, tokens[:, 1:], reduction="none")
        adam.zero_grad()
        each.mean().backward()
        adam.step()
        losses.append(each[known].mean().item())
    return model.clone(), losses
    ### END SOLUTION


# %% check
check(train_induction)

# %% [markdown]
# **Try this.** Draw your own curve: put `watch = live.curve()` in front of the loop and
# `watch(step + 1, 400, losses[-1])` into it. Then make the task harder for the model. What happens with one head a layer?
# With positions a tenth as large? With a single period for all rows, and one layer?

# %%
# model_2, my_losses = train_induction(1, 2)
# print(find_induction_heads(model_2))

# %% [markdown]
# ### When did it happen?
#
# "Sudden" should be a measurement, too. Smooth the losses with a mean of five, $m_i$ = mean of losses
# $i-4 \dots i$, for $i \ge 4$. The whole fall is $F = m_4 - m_\text{last}$. Let $t_p$ be the first step at which the
# share $p$ of it is done, $m_i \le m_4 - p F$. Then $t_{0.5}$ is the step of the change, provided that the middle
# half was quick: $t_{0.75} - t_{0.25}$ at most 15 in 100 of all steps.
#
# ### Exercise: When did it happen?
#
# *15 minutes · difficulty 2 of 3 · 3 points*
#
# Return $t_{0.5}$ if there is a fall ($F > 0$) and it is sudden in this sense; else −1. `losses` is a list of numbers or a
# tensor, at least five, one for each step.


# %% answer
def phase_change_step(losses):
    """The step at which a loss falls suddenly, or −1 if it doesn't.

    losses (step,): a list or tensor with one loss a step, at least five
    → one whole number
    """
    ### BEGIN SOLUTION
    losses = torch.as_tensor(losses, dtype=torch.float64)
    sums = torch.cat([losses.new_zeros(1), losses.cumsum(dim=0)])
    means = (sums[5:] - sums[:-5]) / 5  # means[0] belongs to step 4
    fall = means[0] - means[-1]
    if fall <= 1e-12:
        return -1
    quarter, half, three_quarters = (
        4 + int((means <= means[0] - share * fall).int().argmax()) for share in (0.25, 0.5, 0.75)
    )
    return half if three_quarters - quarter <= 0.15 * len(losses) else -1
    ### END SOLUTION


# %% check
check(phase_change_step)

# %% [markdown]
# **Try this.** Ask it about the two curves above. (Take the `#` away once your answer has passed.)

# %%
# print(phase_change_step(losses_2), phase_change_step(losses_1))

# %% [markdown]
# Now look inside while it happens. Snapshots were kept of the training of a larger model, the curriculum model of this
# course, which starts with rows of repeated random tokens. Here they are measured as you have learned to: the best
# previous-token head of layer 0, the best prefix matching in layer 1, and the share of right guesses on the second copy.


# %% demo
def through_training(name):
    rows = []
    for step, snapshot in models.checkpoints(name):
        logits, cache = snapshot.run_with_cache(tokens)  # random tokens, twice, from section 4
        one_back = cache.pattern[0].diagonal(-1, -2, -1).mean(dim=(0, 2)).max()
        matching = matching_and_copying(snapshot)[0][1].max()
        right = (logits[:, 50:-1].argmax(dim=-1) == tokens[:, 51:]).float().mean()
        loss = second_copy_loss(logits, tokens, 50)
        rows.append([step, loss, one_back, matching, right])
    return torch.tensor(rows).T  # one row for each measurement


parts = ("previous token", "prefix matching", "right guesses")
change = through_training("two-layer-curriculum")
change = change[:, change[0] <= 450]  # the last snapshot is thousands of steps later
pictures.lines(
    dict(zip(parts, change[2:], strict=True)),
    x=change[0],
    x_label="training step",
    y_label="score, share",
    title="A larger model: the parts, and the whole",
)

# %% demo
pictures.lines(
    {"loss on the second copy": change[1]},
    x=change[0],
    x_label="training step",
    y_label="loss (nats)",
    title="The same snapshots: the loss falls off a cliff",
    levels={"all tokens alike": uniform},
)

# %% [markdown]
# For more than 250 steps nothing seems to happen; the loss stays at that of a model that knows nothing. Look at the
# first line: it rises before the others. A head that looks back begins to form while there is hardly any prefix matching
# and every guess is wrong. Then both parts are there, and within a hundred steps the loss falls by more than 5 nats. What looks
# sudden from outside is the last of several steps inside.
#
# Now the model that saw nothing but text:

# %% demo
slow = through_training("two-layer")
pictures.lines(
    dict(zip(parts, slow[2:], strict=True)),
    x=slow[0],
    x_label="training step",
    y_label="score, share",
    title="Trained on text alone: the same parts, slowly",
)

# %% [markdown]
# The same two parts grow, and in the same order. But it takes thousands of steps, and on random tokens the guesses stay wrong:
# one induction head, half grown, among louder voices.
#
# The paper of 2022 saw such a change in every model it trained that had more than one layer, up to billions of
# parameters, and in none with a single layer. In its models most of what they can do with context forms in that short
# window.
#
# Two cautions. The change is this sharp because the task is pure. And whether induction heads are *the* cause
# of learning in context is disputed: for tasks given by a few examples, other heads seem to matter more in large models
# ([Yin and Steinhardt, 2025](https://arxiv.org/abs/2502.14010)).

# %% [markdown]
# Drag through the snapshots yourself and watch one head's pattern turn from a smear into a stripe. Which comes
# first, the stripe or the fall of the loss?

# %% demo
lab.phase_change()

# %% [markdown]
# ## 7 · Read it in a trained model
#
# All tools at once, on the model trained on text alone. Which heads match and copy? Which head of layer 0 feeds them?
# The table shows the matching score of each pair: the head of layer 1 that asks, and the head of layer 0 whose output it
# reads in its keys.


# %% demo
def pair_scores(model):
    queries = model.W_E @ model.W_Q[1]  # (head, d_vocab, d_head)
    keys = model.W_E @ (model.W_V[0] @ model.W_O[0])[:, None] @ model.W_K[1]
    values = torch.linalg.eigvals(keys.mT @ queries)  # (head of layer 0, head of layer 1, d_head)
    return (values.real.sum(dim=-1) / values.abs().sum(dim=-1)).T


pictures.matrix(
    pair_scores(textual),
    rows=[f"head 1.{j}" for j in range(4)],
    columns=[f"keys from 0.{i}" for i in range(4)],
    axes=("head that asks", "whose output the keys read"),
    title="Matching scores in the model trained on text",
)

# %% [markdown]
# Compare the rows with the table in section 2. Some heads have a high matching score and hardly any prefix matching:
# the eigenvalues say what a head would do *if* it looked that way, and other parts of its scores (plain content,
# positions) can outweigh it. Weights propose; the run decides. Use both.
#
# **Question.** *On random tokens the model trained on text has a head with a prefix matching above one half, and yet
# its predictions on the second copy are nearly all wrong. How can that be?*
#
# <details><summary>Answer</summary>
#
# Prediction is a sum of all paths. The induction head raises the right token, but on random tokens the direct path and the
# other heads vote for whatever usually follows in text, and they vote loudly (in the first copy its loss was worse than that
# of a model that knows nothing). In text, where these votes mostly make sense, the induction head's vote tips the scales. So a
# head can be a perfect induction head and still not decide. Notebook 06 weighs such votes against each other.
#
# </details>

# %% [markdown]
# ### Question: A small effect
#
# *12 minutes · 2 points, marked by a person*
#
# A report says: "On repeated random tokens with period 50, head 3.2 puts 0.9 of its attention 49 positions back. We
# zero-ablated it, and the loss on the second copy rose by 0.05 nats only. So it is an induction head, and an unimportant one."
# Write about five sentences. Which of the two conclusions follow? What else could explain the small rise? Name one measurement
# that decides whether the head is an induction head, and one that decides between two explanations of the small rise.
#
# Write your answer into the next cell: double-click it, replace the words that stand there, press Shift+Enter.
# No program judges it. In a class a person does. Alone, mark it yourself by `solution("a_small_effect")`.

# %% question [markdown] name="a_small_effect" points=2
# ### BEGIN SOLUTION
# **A good answer.** Neither follows. Attention 49 back on a period of 50 is prefix matching, and that is half of an induction
# head: the head may lower what it finds, or write something else. (With a single period it may even be a head that always looks 49
# back.) Its copying score, or its direct effect on the logit of the token it looks at, decides, on texts of several periods. The rise
# is small if other heads do the same work, if a later head does more once this one is gone, or if the direct path
# and others outvote it anyway. Taking all heads of that kind out together tells colleagues from unimportance; freezing all patterns
# (or looking at what later heads write with and without it) shows repair by others.
#
# **Marking guide**
#
# - **1 point**: says that looking is not copying, and names a measurement of what the head does to the token it finds.
# - **1 point**: gives an explanation of the small rise other than "unimportant", and an experiment whose outcome would differ: an
#   ablation of several heads together, frozen patterns, direct effects.
# ### END SOLUTION

# %% [markdown]
# ## What you have shown
#
# | the paper says | you built |
# |---|---|
# | Induction heads look at what came after an earlier copy, and copy it; on random repeated tokens nothing else can help. | `repeated_tokens`, `loss_by_position`, `prefix_matching_score`, `copying_effect`, `find_induction_heads` |
# | They work by K-composition with a previous-token head; the composed circuit has positive eigenvalues. | `previous_token_score`, `k_composed_qk`, `matching_score`, `ablate_head` |
# | The mechanism can be written down; there is more than one. | `previous_token_head`, `induction_by_k_composition`, `induction_by_pointer_arithmetic` |
# | They form in a sudden change, never with one layer, and context helps from then on (2022). | `train_induction`, `phase_change_step`, `in_context_learning_score` |
#
# Three things to remember. Off by one is the usual mistake: the wanted source stands *period minus one* back. It
# takes two scores, since heads that look right may lower what they find. And a head is proved by three kinds of
# evidence: where it looks, what its weights say, and what is missing without it.
#
# **Next:** [06 · path importance](../06-path-importance/06-path-importance.ipynb) asks how much each path through a model really matters, and weighs the votes.

# %%
progress()
