# %% [markdown]
# # 00 · The residual stream: the transformer, redrawn
#
# A transformer can be read. Not by staring at its billions of multiplications, but by writing the
# same computation down in another way, so that its parts come apart.
#
# **After this notebook you can**
#
# - write the inside of a transformer as one running sum, the *residual stream*;
# - say which part of a model wrote which part of its prediction;
# - find the weights that connect two layers directly, although nobody trained them as such;
# - turn the stream's coordinates by any angle and show that nothing changes;
# - measure how much of what one layer writes another layer can see.
#
# **Time:** about two hours. **You need:** Python, basic PyTorch (tensors, `@`, indexing), and linear
# algebra up to the singular value decomposition. You don't need to know transformers well; each
# piece is explained where it is used.

# %%
import torch

from grader import check, hint, models, progress, solution
from grader.lab import pictures
from grader.transformer import Transformer

# %% [markdown]
# ## How this course works
#
# Each notebook alternates between reading, pictures, and exercises. An exercise is a function that
# you write. You find a cell like this one:
#
# ```python
# def residual_stream(embedding, layer_outputs):
#     """What goes in, what comes out, with shapes."""
#     raise NotImplementedError()
# ```
#
# Replace the `raise` line with your answer and run the cell. Then run the cell below it, which says
# `check(residual_stream)`. It asks your function a handful of questions with fresh random numbers,
# compares the answers with ours, and tells you at once what it thinks.
#
# | verdict | what it means |
# |---|---|
# | **PASS** | every question was answered correctly; the points are yours |
# | **PARTIAL** | some named parts of the answer are right, and they earn their share |
# | **WRONG** | an answer differs; the message says what *kind* of mistake it looks like |
# | **NOT_ATTEMPTED** | the `raise NotImplementedError()` is still there, or the cell was not run |
# | **CRASHED** | your code raised an exception; you see the lines of your own code |
# | **TIMEOUT**, **OUT_OF_MEMORY** | it took too long, or asked for too much memory |
# | **GRADER_ERROR** | our fault, never yours; nothing is counted |
#
# A wrong answer costs nothing. Try as often as you like. The message names an idea and a place to
# look; it never shows you the expected numbers, because finding them is the fun part.
#
# Four functions are all you need:
#
# - `check(residual_stream)` judges your answer. Give it the function itself, without quotes.
# - `hint(residual_stream)` shows a hint. Call it again for a more direct one; there are three.
# - `solution(residual_stream)` shows one way to do it, once you have passed. There is always more
#   than one. `solution(residual_stream, anyway=True)` opens it before that.
# - `progress()` shows how far you are.
#
# Two kinds of questions stand between the exercises. Those with a folded answer are for you alone: think
# first, then open it. From notebook 03 on, each notebook also ends in one that you answer in writing. No
# program judges it; in a class a person does, by criteria that `solution("…")` with the question's name shows.
#
# **Nothing is sent anywhere.** All judging happens on this computer, and your progress is kept in a
# file of your own. You may restart the kernel at any time: your answers are in the notebook.
#
# The cells are yours. Change the code, add cells, break things. Cells that draw our pictures are
# locked; copy their lines into a new cell if you want to play with them.

# %%
progress()

# %% [markdown]
# ## The paper
#
# The course follows [A Mathematical Framework for Transformer
# Circuits](https://transformer-circuits.pub/2021/framework/index.html), by Elhage and others,
# published at the end of 2021. Its authors take transformers with zero, one, and two layers,
# attention only, and ask: can we say what these models do *from their weights*? For such small
# models the answer is largely yes, and the words they made on the way are now the everyday language
# of the field.
#
# Here is the map. Each result has a notebook in which you build it yourself.
#
# | what the paper shows | here |
# |---|---|
# | A transformer is a residual stream: layers read from it and add to it, linearly. Two layers are connected by *virtual weights*. No direction of the stream is special. | **00**, this one |
# | With zero layers, the best a transformer can do is a table of *bigrams*, and $W_E W_U$ becomes that table. | **01** zero-layer |
# | Heads are independent and add up. Each has two separate circuits: QK decides where to look, OV decides what to copy. | **02** attention-heads |
# | With one layer, and attention held fixed, a model is bigrams plus *skip-trigrams*, readable as tables. Most heads copy. | **03** one-layer |
# | With two layers, heads read what other heads wrote, in three ways: Q-, K-, and V-*composition*. | **04** composition |
# | Composition gives *induction heads*: find what came after this token last time, and predict it again. They appear suddenly in training. | **05** induction-heads |
# | How much does each kind of path through the model matter? | **06** path-importance |
# | What is left out: MLPs, LayerNorm, large models. | **07** beyond |
# | Given an unknown model, say what its heads do. | **08** mystery-models |

# %% [markdown]
# ### A shorter way, if you know attention
#
# If you have written an attention layer yourself, you need not do all of it again. This way takes a little more
# than half of the time. Read the dictionary below, then each notebook's text at your own speed, and do these
# exercises. The minutes are for the exercises alone.
#
# | notebook | do | minutes |
# |---|---|---|
# | **00** | `virtual_weights`, `rotate_residual_stream` | 33 |
# | **01** | `bigram_table`, `bigram_entropy` | 18 |
# | **02** | `qk_circuit`, `ov_circuit`, `tensor_product`, `mixed_product` | 35 |
# | **03** | `one_layer_paths`, `full_qk_circuit`, `full_ov_circuit`, `skip_trigram_effect`, `low_rank_eigenvalues`, `eigenvalue_trap`, `copying_score`, `used_skip_trigrams` | 99 |
# | **04** | `q_composition`, `k_composition`, `v_composition`, `low_rank_frobenius`, `composition_table`, `two_layer_paths`, `attention_score_paths` | 110 |
# | **05** | `repeated_tokens`, `prefix_matching_score`, `copying_effect`, `find_induction_heads`, `matching_score`, `previous_token_head`, `induction_by_k_composition`, `train_induction` | 200 |
# | **06** | `term_importance`, `virtual_head_importance` | 45 |
# | **07** | `fold_layer_norm`, `smeared_keys` | 22 |
# | **08** | `name_circuits` | 180 |
#
# Answer the questions at the ends of notebooks 03 to 08 as well. They show fastest whether you have understood.

# %% [markdown]
# ## The dictionary
#
# Half of all mistakes in this subject are transposes. So here is what each name means and which way
# round it is. Come back to this table whenever you need it.
#
# In this course **vectors are rows and weights stand on the right**, `x @ W`, as in PyTorch code.
# The paper uses columns with weights on the left, $Wx$. Everything it says holds here after a
# transpose, and for some products the two agree.
#
# | name | shape here | meaning | in the paper |
# |---|---|---|---|
# | `W_E` | (d_vocab, d_model) | embedding: one row for each token | transposed |
# | `W_U` | (d_model, d_vocab) | unembedding: stream → logits | transposed |
# | `W_pos` | (n_ctx, d_model) | positions, added only where queries and keys read | transposed, called $W_P$ |
# | `W_Q`, `W_K`, `W_V` | one head: (d_model, d_head) | stream → query, key, value | transposed |
# | `W_O` | one head: (d_head, d_model) | a head's result → stream | transposed |
# | `pattern` | (dst, src) | who looks at whom; rows sum to 1 | the same, called $A$ |
# | `W_QK` | (d_model, d_model) | `W_Q @ W_K.T`; rows belong to the query | **the same matrix** |
# | `W_OV` | (d_model, d_model) | `W_V @ W_O`; reads a row, writes a column | $W_O W_V$, **transposed** |
# | full QK circuit | (d_vocab, d_vocab) | `W_E W_QK W_E.T`, [destination, source] | **the same** |
# | full OV circuit | (d_vocab, d_vocab) | `W_E W_OV W_U`, [source, output] | **transposed** |
# | direct path | (d_vocab, d_vocab) | `W_E W_U`, [current, next] | $W_U W_E$, **transposed** |
# | a head's output | (pos, d_model) | `A @ x @ W_OV` | $(A \otimes W_{OV})\,x$ |
# | virtual weights | (d_a, d_b) | `W_out @ W_in`, earlier layer first | $W_{in} W_{out}$, **transposed** |
#
# In a model the heads' weights are stacked: `W_Q` has shape (layer, head, d_model, d_head). Layers,
# heads, and positions count from 0. `dst` and `src` are the destination and the source position of
# attention. Logarithms are natural, so losses are in *nats*.
#
# A few words that will come up all the time:
#
# - **token**: a piece of text, given as an integer id. **d_vocab** is how many there are.
# - **residual stream**: the vector of length **d_model** at each position that all layers share.
# - **logits**: one number for each token that could come next; softmax turns them into probabilities.
# - **attention head**: moves information between positions. Inside, it works with vectors of length
#   **d_head**, much shorter than d_model.
# - **circuit**: a part of the computation that can be understood by itself.
# - **path**: one way from the input tokens through some heads (or none) to the logits.
# - **composition**: a head reading what an earlier head wrote.
# - **frozen pattern**: an attention pattern held fixed while other things change. With frozen
#   patterns the whole model is linear.

# %% [markdown]
# ## 1 · A sum that never forgets
#
# Look at a transformer the usual way, and you see a tower: each layer takes the output of the one
# below. Now look at the same thing along the line that *skips* the layers. Every layer reads from
# that line and adds its result back to it. Nothing is ever overwritten.

# %% demo
pictures.stream_diagram(
    ["layer 0", "layer 1", "layer 2"], title="Layers read from the stream and add to it"
)

# %% [markdown]
# The line is the residual stream. Write $x_0$ for the embedding of the tokens, and $f_0, f_1, \dots$
# for what the layers add:
#
# $$x_1 = x_0 + f_0(x_0), \qquad x_2 = x_1 + f_1(x_1) = x_0 + f_0(x_0) + f_1(x_1), \qquad \dots$$
#
# At any point the stream is the embedding plus everything written so far. The stream itself computes
# nothing. It is a channel on which layers send each other messages.
#
# ### Exercise: The stream as a running sum
#
# *10 minutes · difficulty 1 of 3 · 1 point*
#
# You get the embedding and what each layer added. Give the stream at every moment: before layer 0,
# after layer 0, and so on, until after the last layer. With three layers there are four moments.
#
# Why bother with something so small? Because everything later rests on it. If you know the parts of
# a sum, you can ask each of them alone what it did. And a model may have no layers at all, as the
# one in the next notebook. Your function should not mind.


# %% answer
def residual_stream(embedding, layer_outputs):
    """The residual stream at every moment.

    embedding (pos, d_model): the stream before layer 0
    layer_outputs (layer, pos, d_model): what each layer adds; there may be 0 layers
    → (layer + 1, pos, d_model)
    """
    ### BEGIN SOLUTION
    moments = [embedding]
    for added in layer_outputs:
        moments.append(moments[-1] + added)
    return torch.stack(moments)
    ### END SOLUTION


# %% check
check(residual_stream)

# %% [markdown]
# **What you showed.** The stream after all layers is *one sum of known parts*. No part is hidden
# inside another. Whatever the last layer's output depends on, it enters the stream as a plain
# summand, side by side with the embedding that came in first.
#
# Let's see it in a small model. Its weights are random: what we look at here is true of every
# transformer, trained or not.

# %%
words = ["the", " cat", " sat", " on", " a", " mat", ".", "\n"]
toy = Transformer.random(
    n_layers=2, n_heads=3, d_model=24, d_head=4, d_vocab=len(words), n_ctx=12,
    generator=torch.Generator().manual_seed(0),
)  # fmt: skip
tokens = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7])
logits, cache = toy.run_with_cache(tokens)
toy

# %% [markdown]
# `run_with_cache` gives the logits and everything that was computed on the way. `cache.head_out` has
# shape (layer, head, pos, d_model): what each head added to the stream. A layer's output is the sum
# over its heads. The picture shows the length of the stream vector at each position as it grows.

# %% demo
lengths = cache.stream.norm(dim=-1)
pictures.matrix(
    lengths,
    rows=["embedding", "+ layer 0", "+ layer 1"],
    columns=[words[t] for t in tokens],
    axes=("the stream after", "position (its token)"),
    title="Length of the stream vector",
    diverging=False,
    digits=1,
)

# %% [markdown]
# **Try this.** Does your function give the stream that the model really had? Remove the `#` and run
# the cell. Then leave out one head when you sum, and look at the difference: what is it equal to?

# %%
layer_outputs = cache.head_out.sum(dim=1)
# torch.allclose(residual_stream(toy.W_E[tokens], layer_outputs), cache.stream, atol=1e-5)

# %% [markdown]
# ## 2 · Who wrote this prediction?
#
# At the end the model multiplies the stream by $W_U$ to get logits. Multiplication by a matrix is
# linear, so it may be done part by part:
#
# $$\text{logits} = (x_0 + r_0 + r_1 + \dots)\, W_U = x_0 W_U + r_0 W_U + r_1 W_U + \dots$$
#
# Here $r_0, r_1, \dots$ are the outputs of the heads. Each of them has logits of its own, and the
# model's logits are the sum. So we may ask: how much did *this* head raise *that* token?
#
# ### Exercise: Which part wrote which logit
#
# *8 minutes · difficulty 1 of 3 · 1 point*
#
# A *component* is any part of the stream: the embedding, a head's output, a whole layer's. Give the
# logits that each component writes. This reading of a model is called *direct logit attribution*,
# and you will meet it again in notebooks 05 and 06.


# %% answer
def component_logits(components, W_U):
    """The logits that each part of the stream writes by itself.

    components (component, pos, d_model): parts of the stream
    W_U (d_model, d_vocab): the unembedding
    → (component, pos, d_vocab); their sum over components is the logits of the summed stream
    """
    ### BEGIN SOLUTION
    return torch.einsum("cpm,mv->cpv", components, W_U)
    ### END SOLUTION


# %% check
check(component_logits)

# %% [markdown]
# **What you showed.** A prediction can be split by author without any approximation. In the picture
# each row is one part of the toy model, and the last row is their sum: the model's own logits at the
# last position. Red raises a token, blue lowers it.

# %% demo
parts = torch.cat([toy.W_E[tokens][None], cache.head_out.flatten(0, 1)])
names = ["embedding", *(f"head {i}.{j}" for i in range(2) for j in range(3))]
written = torch.stack([part[-1] @ toy.W_U for part in parts])
pictures.matrix(
    torch.cat([written, logits[-1:]]),
    rows=[*names, "sum"],
    columns=words,
    axes=("written by", "token that could come next"),
    title="Logits at the last position, by who wrote them",
)

# %% [markdown]
# One warning for later. "Direct" is a real restriction. A head may also act through others: it
# writes something that a later head reads, and the later head gets all the credit here. And in
# trained models a later part sometimes erases what an earlier one wrote, so that large numbers of
# opposite sign cancel. The numbers are exact; what they mean takes care.
#
# **Question.** *Suppose you take the log-softmax of each component's logits before adding them up.
# Do you still get the model's log-probabilities?*
#
# <details><summary>Answer</summary>
#
# Up to one constant in each row, yes: a log-softmax subtracts one number from all logits of a row,
# and a sum of such numbers is again one number. A last log-softmax over the sum repairs it. But the
# single terms are misleading. Each was normalized as if it were the whole model, and a component
# that writes nothing at all (all logits 0) would look like a confident vote for the uniform
# distribution. Keep logits until the sum is complete.
#
# </details>

# %% [markdown]
# ## 3 · Virtual weights
#
# Layers write into the stream by a matrix, and they read from it by a matrix. Take something that
# layer 0 holds inside, a row vector $y$ with $d_a$ numbers. It writes $y\,W_\text{out}$. The stream
# carries this along, adding other things to it but never touching it. Three layers later (or ten)
# someone reads the stream by $W_\text{in}$, and what arrives from $y$ is
#
# $$y\, W_\text{out}\, W_\text{in}.$$
#
# The product $W_\text{out} W_\text{in}$ connects the two directly. Nobody stored it anywhere, yet it
# acts as if it were a weight. The paper calls it a *virtual weight*. In the paper's column
# convention it reads $W_\text{in} W_\text{out}$: the same thing, transposed.

# %% demo
pictures.stream_diagram(
    [["head 0.0", "head 0.1"], ["head 1.0", "head 1.1"], ["head 2.0", "head 2.1"]],
    path=[(0, 1), (2, 0)],
    title="Head 2.0 reads head 0.1 directly: the stream in between is a wire",
)

# %% [markdown]
# ### Exercise: Virtual weights
#
# *8 minutes · difficulty 1 of 3 · 1 point*
#
# Give the matrix that takes what the earlier layer holds to what the later layer reads of it.
#
# The answer is short. The point is which way round it goes. Write the axes beside each matrix before you
# multiply. That habit will save you hours in notebooks 03 and 04.


# %% answer
def virtual_weights(W_out, W_in):
    """How a later layer reads an earlier one, through the stream.

    W_out (d_a, d_model): how the earlier layer writes
    W_in (d_model, d_b): how the later layer reads
    → (d_a, d_b)
    """
    ### BEGIN SOLUTION
    return torch.einsum("am,mb->ab", W_out, W_in)
    ### END SOLUTION


# %% check
check(virtual_weights)

# %% [markdown]
# **What you showed.** Any two layers are connected, however far apart. A model with $n$ layers has
# about $n^2/2$ such connections, and each is a matrix you can compute from the weights alone. In a
# trained model some of them matter and many don't. Finding those that do is what notebook 04 is about.
#
# Here are all connections from a head of layer 0 to the values of a head of layer 1 in the toy
# model. A number is the Frobenius norm of one virtual weight matrix: the root of the sum of its
# squared entries.

# %% demo
sizes = torch.stack(
    [torch.stack([(toy.W_O[0, i] @ toy.W_V[1, j]).norm() for j in range(3)]) for i in range(3)]
)
pictures.matrix(
    sizes,
    rows=[f"head 0.{i}" for i in range(3)],
    columns=[f"head 1.{j}" for j in range(3)],
    axes=("writes", "reads, into its values"),
    title="Size of the virtual weights",
    diverging=False,
)

# %% [markdown]
# In this random model all of them have about the same size. Nothing is connected to anything in
# particular. Keep this picture in mind as the look of *no structure*.

# %% [markdown]
# ## 4 · No direction is special
#
# What does dimension 7 of the residual stream mean? The question sounds sensible, but there is
# nothing in the equations to hold on to. Everybody who touches the stream does so by a matrix. So
# let's choose other coordinates: pick any orthogonal matrix $R$ (a rotation, perhaps with a
# reflection), replace every stream vector $x$ by $xR$, and adapt the matrices so that each does in
# the new coordinates what it did in the old ones. A writer followed by a reader then gives
#
# $$(W_\text{out} R)\,(R^{\mathsf T} W_\text{in}) = W_\text{out}\, W_\text{in}:$$
#
# the same virtual weights as before, and so the same model.
#
# The paper says that the stream has *no privileged basis*. Tokens have one: dimension 7 of a one-hot
# vector is token 7. Attention patterns have one: an entry belongs to two positions. The hidden
# neurons of an MLP have one too, because a nonlinearity acts on each of them by itself. The stream,
# and queries, keys, and values, do not.
#
# ### Exercise: No privileged basis
#
# *25 minutes · difficulty 2 of 3 · 3 points*
#
# Don't take our word for it. Build the rotated model. You get a whole transformer and an orthogonal
# matrix `R`; give a *new* transformer whose stream is `x @ R` wherever the old one's was `x`. It must
# give the same logits for every text, and the given model must stay as it was.
#
# `model.with_weights(W_E=…, W_U=…)` makes a changed copy. All seven weights are attributes of the
# model, with the shapes of the dictionary and layer and head in front: `model.W_Q` has shape
# (layer, head, d_model, d_head). `@` acts on the last two axes of a stack, so one product serves all
# heads at once. Some models add `W_pos` to the stream itself (`model.pos_in_stream` is then `True`);
# `with_weights` keeps that setting.


# %% answer
def rotate_residual_stream(model, R):
    """The same model in other coordinates of its stream.

    model: a Transformer, of any depth; it stays as it is
    R (d_model, d_model): orthogonal, so R @ R.T is the identity
    → a new Transformer whose stream is x @ R where the given one's is x, with the same logits
    """
    ### BEGIN SOLUTION
    R_back = R.T  # the inverse of an orthogonal matrix
    return model.with_weights(
        W_E=model.W_E @ R,  # three write stream vectors: each row becomes row @ R
        W_pos=model.W_pos @ R,
        W_O=model.W_O @ R,
        W_Q=R_back @ model.W_Q,  # four read them: first back, then as before
        W_K=R_back @ model.W_K,
        W_V=R_back @ model.W_V,
        W_U=R_back @ model.W_U,
    )
    ### END SOLUTION


# %% check
check(rotate_residual_stream)

# %% [markdown]
# **What you showed.** If you look at single coordinates of the stream, you look at an arbitrary
# choice. The picture shows the same eight stream vectors of the toy model twice: as they are, and
# after a random rotation. Every number is another. What stays is how the vectors lie to each other:
# their lengths and all inner products.

# %%
gaussian = torch.randn(24, 24, generator=torch.Generator().manual_seed(1))
R, _ = torch.linalg.qr(gaussian)  # a random orthogonal matrix
stream = cache.stream[-1]

# %% demo
pictures.matrix(
    torch.cat([stream, stream @ R]),
    rows=[*(words[t] for t in tokens), *(words[t] + "′" for t in tokens)],
    axes=("position: as it is, then turned (′)", "dimension of the stream"),
    title="The same stream in two bases",
)

# %%
turned = stream @ R
(turned @ turned.T - stream @ stream.T).abs().max()  # zero, up to rounding

# %% [markdown]
# **A later finding.** The argument says that the *equations* prefer no direction. It doesn't say
# that *training* can't. Later work at the same lab looked at trained language models and found that
# some single dimensions of the residual stream are far larger than the rest; see [Privileged Bases
# in the Transformer Residual
# Stream](https://www.anthropic.com/research/privileged-bases-in-the-transformer-residual-stream).
# The likely cause is the optimizer. Adam rescales the gradient of each coordinate by itself, so it
# *does* know about coordinates, even if the model doesn't.
#
# How would you notice? Take all coordinates of many stream vectors and look at how heavy the tails
# are. The *kurtosis* is the mean of the fourth powers over the square of the mean of the second
# powers. For a Gaussian it is 3. A few coordinates that stick out make it large, and a random
# rotation, which mixes all coordinates, brings it back to about 3.


# %%
def kurtosis(x):
    """Mean fourth power over squared mean square: 3 for a Gaussian, large for outliers."""
    return (x**4).mean() / (x**2).mean() ** 2


generator = torch.Generator().manual_seed(2)
plain = torch.randn(200, 256, generator=generator)
spiky = plain.clone()
spiky[:, 7] *= 10  # one dimension sticks out
mixed, _ = torch.linalg.qr(torch.randn(256, 256, generator=generator))  # a random rotation

# %% demo
pictures.bars(
    [kurtosis(plain), kurtosis(plain @ mixed), kurtosis(spiky), kurtosis(spiky @ mixed)],
    ["plain", "plain, turned", "spiky", "spiky, turned"],
    y_label="kurtosis",
    x_label="200 random stream vectors of 256 dimensions",
    title="A special dimension shows, until you rotate",
    levels={"Gaussian": 3.0},
)

# %% [markdown]
# **Question.** *Real transformers put a LayerNorm in front of every layer. Does that give the stream
# a privileged basis?*
#
# <details><summary>Answer</summary>
#
# Hardly. LayerNorm does four things: it subtracts the mean of the coordinates, divides by their
# spread, multiplies each coordinate by a learned weight, and adds a bias. The multiplication, the
# bias, and the subtraction are linear, so they can be folded into the matrix that follows. What
# remains is a division by a length, and lengths don't change under rotation. (Notebook 07 does the
# folding.) What the subtraction takes away, the direction in which all coordinates are equal, is
# never read. That is one direction of thousands, and no basis.
#
# </details>

# %% [markdown]
# ## 5 · Sharing the channel
#
# The stream is long, but it is crowded. In large models d_model is some thousands, a head writes
# into 64 or 128 dimensions of it, and dozens of heads in dozens of layers all write into the same
# one. With MLPs it is worse. An MLP has four times d_model neurons in each layer, so halfway up a
# model of 50 layers, about 100 neurons for every dimension of the stream have already spoken. The
# paper calls the stream a *bottleneck*, and asks how layers share its *bandwidth*.
#
# One way to share is to use different *subspaces*. A head with a small d_head can only write into
# the space spanned by the rows of its $W_O$, and only read the space spanned by the columns of its
# $W_V$ (or $W_Q$, or $W_K$). Two heads whose spaces are at right angles never notice each other.
#
# ### Exercise: How much of a write is read
#
# *25 minutes · difficulty 3 of 3 · 3 points*
#
# Let $P$ be the orthogonal projector onto the column space of $W_\text{in}$: it keeps what this
# reader can see of a stream vector and drops the rest. Measure which share of a writer's output
# survives,
#
# $$\frac{\lVert W_\text{out} P \rVert_F^2}{\lVert W_\text{out} \rVert_F^2}.$$
#
# It's 0 if the reader sees nothing of what is written, and 1 if it sees all. It does not matter how
# *strongly* the reader reads; only the directions count.
#
# Three things to keep in mind. The columns of $W_\text{in}$ are not at right angles to each other.
# They may depend on each other, or be more than d_model, so the space can have fewer dimensions than
# there are columns: use the numerical rank, the number of singular values that are not zero up to
# rounding. And a $W_\text{out}$ of zeros writes nothing; call its overlap 0.


# %% answer
def read_write_overlap(W_out, W_in):
    """The share of what W_out writes that lies where W_in reads.

    W_out (d_a, d_model): how the earlier layer writes
    W_in (d_model, d_b): how the later layer reads; of any rank, d_b may exceed d_model
    → one number in [0, 1]; 0 for a W_out of zeros
    """
    ### BEGIN SOLUTION
    written = (W_out**2).sum()
    if written == 0:
        return 0.0
    # The pseudo-inverse undoes W_in on its column space and is zero outside of it, and it cuts
    # singular values at the numerical rank: what is left of the two in a row is the projector.
    projector = W_in @ torch.linalg.pinv(W_in)
    seen = ((W_out @ projector) ** 2).sum()
    return seen / written
    ### END SOLUTION


# %% check
check(read_write_overlap)

# %% [markdown]
# **What you showed.** You can say from weights alone whether two parts of a model could possibly
# talk to each other. You also know what *no relation* looks like. A random direction has on average
# the share $k / d_\text{model}$ of its squared length inside a given $k$-dimensional space. So two
# heads that know nothing of each other overlap by about $d_\text{head} / d_\text{model}$, and only
# more (or less!) than that is news.


# %%
def random_overlap(d_model, d_head, seed):
    """The overlap of a random writer with a random reader, by an orthonormal basis of the reader."""
    generator = torch.Generator().manual_seed(seed)
    W_out = torch.randn(d_head, d_model, generator=generator)
    basis, _ = torch.linalg.qr(torch.randn(d_model, d_head, generator=generator))
    return float((W_out @ basis).square().sum() / W_out.square().sum())


heads = [1, 2, 4, 8, 16, 32, 64]
overlaps = [sum(random_overlap(64, d, seed) for seed in range(20)) / 20 for d in heads]

# %% demo
pictures.lines(
    {"measured, mean of 20": overlaps, "d_head / d_model": [d / 64 for d in heads]},
    heads,
    x_label="d_head",
    y_label="overlap",
    title="Two random heads in a stream of 64 dimensions",
)

# %% [markdown]
# There is a second way to share. A space of $n$ dimensions holds only $n$ directions at right
# angles, but very many that are *nearly* so. The cosine of two random directions is about
# $1/\sqrt{n}$. With d_model in the thousands, a model can use far more directions than it has
# dimensions, at the price of a little noise.


# %%
def typical_cosine(n):
    """Root mean square of the cosines between 60 random directions in n dimensions."""
    vectors = torch.randn(60, n, generator=torch.Generator().manual_seed(n))
    vectors = vectors / vectors.norm(dim=1, keepdim=True)
    cosines = (vectors @ vectors.T)[torch.ones(60, 60).triu(1).bool()]
    return float(cosines.square().mean().sqrt())


dimensions = [4, 16, 64, 256, 1024]

# %% demo
pictures.lines(
    {
        "measured": [typical_cosine(n) for n in dimensions],
        "1 / √n": [n**-0.5 for n in dimensions],
    },
    dimensions,
    x_label="dimensions n",
    y_label="typical cosine of two directions",
    title="In many dimensions, random directions hardly meet",
    log_x=True,
)

# %% [markdown]
# ## 6 · Cleaning up
#
# What is written stays. The stream has no "delete". But a layer can read something and write its
# negative, and the sum is then zero. The paper saw signs of this *memory management* in real models:
# MLP neurons whose input and output weights point in opposite directions (a cosine near $-1$), and
# heads that attend to the present token and whose $W_{OV}$ has large negative eigenvalues.
#
# Here is a head made by hand that erases one direction $d$ (of length 1) wherever it looks:
# $W_V = d^{\mathsf T}$ reads how much of $d$ there is, $W_O = -d$ writes the opposite. If it attends
# to the present token only, its output is $-(x \cdot d)\, d$.

# %%
d = torch.randn(24, generator=torch.Generator().manual_seed(3))
d = d / d.norm()
W_V_eraser, W_O_eraser = d[:, None], -d[None, :]
pattern = torch.eye(len(tokens))  # every position looks at itself
before = toy.W_E[tokens]
after = before + pattern @ before @ W_V_eraser @ W_O_eraser

# %% demo
pictures.matrix(
    torch.stack([before @ d, after @ d]),
    rows=["before the head", "after the head"],
    columns=[words[t] for t in tokens],
    axes=("the stream", "position (its token)"),
    title="How much of the direction d is in the stream",
)

# %% [markdown]
# **Try this.** Change the pattern so that each position looks at the one before it. Is $d$ still
# erased? What is left in the stream then? And which number should replace the $-1$ in $W_O$ if the
# head gives only half of its attention to the present token?
#
# **Question.** *Could the eigenvalues of $W_{OV}$ tell you about the eraser without knowing $d$?*
#
# <details><summary>Answer</summary>
#
# Yes. $W_{OV} = W_V W_O = -d^{\mathsf T} d$ sends $d$ to $-d$ and everything at right angles to $d$ to
# zero. So it has one eigenvalue $-1$, and the others are 0. A copying head is the opposite case, with
# positive eigenvalues. Notebook 03 makes a score of this, and shows when not to trust it.
#
# </details>

# %% [markdown]
# ## 7 · Read it in a trained model
#
# Random weights show what is true of *every* transformer. What training makes of it is another
# question. The course comes with a few small models, trained on Python's own library, its
# documentation, and some English. Here is one with two layers of four heads, and a text that it has
# never seen.

# %% demo
trained = models.load("two-layer")
text = models.sample_tokens("docs")[2000:2256]
predictions, seen = trained.run_with_cache(text)
print(trained)
print("loss:", float(torch.nn.functional.cross_entropy(predictions[:-1], text[1:])), "nats")
print(trained.tokenizer.decode(text[:60]))

# %% [markdown]
# **Who predicts?** Split the prediction by author, as in section 2. For each part, the bar shows how
# far it lifts the *true* next token above the average token, as a mean over all positions.

# %% demo
authors = torch.cat([seen.stream[:1], seen.head_out.flatten(0, 1)])
lifts = authors[:, :-1] @ trained.W_U
lifts = lifts - lifts.mean(dim=-1, keepdim=True)
true_next = lifts[:, torch.arange(len(text) - 1), text[1:]].mean(dim=1)
pictures.bars(
    true_next,
    ["embed", *(f"{i}.{j}" for i in range(2) for j in range(4))],
    x_label="the embedding, then each head (layer.head)",
    y_label="logits for the true next token",
    title="Who lifts the true next token",
)

# %% [markdown]
# **Who listens to whom?** For each head of layer 0 and each head of layer 1: which share of what the
# first one writes can the second one see with its keys? Two random heads would overlap by
# d_head / d_model, so that is subtracted. Red means that they share more of the stream than chance
# would give them.

# %% demo
readers = [torch.linalg.qr(W_K).Q for W_K in trained.W_K[1]]  # an orthonormal basis of each
shares = torch.stack(
    [
        torch.stack([(W_O @ basis).square().sum() / W_O.square().sum() for basis in readers])
        for W_O in trained.W_O[0]
    ]
)
pictures.matrix(
    shares - trained.d_head / trained.d_model,
    rows=[f"head 0.{i}" for i in range(4)],
    columns=[f"head 1.{j}" for j in range(4)],
    axes=("writes", "reads, into its keys"),
    title="Overlap in a trained model, minus chance",
)

# %% [markdown]
# Compare this with the picture of *no structure* in section 3. One square stands out: a head of layer
# 1 has turned its keys toward what one head of layer 0 writes. Nobody told it to. You have found a
# wire in a trained network, from its weights alone, and in notebook 05 you will learn what it is for.
#
# **Try this.** Look at the values or the queries instead of the keys. Compute the same table for
# `Transformer.random(…)` of the same sizes. And check whether training gave the stream special
# dimensions: is `kurtosis(seen.stream[1])` larger than `kurtosis(seen.stream[1] @ Q)` for a random
# rotation `Q`?

# %% [markdown]
# ## What you have now
#
# | the paper's claim | where you showed it |
# |---|---|
# | The stream is the sum of the embedding and all outputs so far. | `residual_stream` |
# | Logits are linear in the stream, so each part can be asked alone. | `component_logits` |
# | Any two layers are connected by virtual weights. | `virtual_weights` |
# | The stream has no privileged basis. (Trained models still show one; that's the optimizer.) | `rotate_residual_stream` |
# | Layers read and write subspaces, and share the channel. | `read_write_overlap` |
# | Some parts clean up after others. | the eraser |
#
# So far we never asked what a model *predicts*. The smallest model that predicts anything has no
# layers at all: a token comes in, is embedded, and is unembedded at once. What can it learn? On to
# [01 · Zero layers](../01-zero-layer/01-zero-layer.ipynb).

# %%
progress()
