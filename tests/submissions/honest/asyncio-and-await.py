# family: asyncio
# tries: awaits at the top of a cell, runs tasks, a timeout and a thread from asyncio
# %%
import asyncio, time
async def slow(n):
    await asyncio.sleep(0.001)
    return n
values = await asyncio.gather(*(slow(n) for n in range(5)))
in_thread = await asyncio.to_thread(time.sleep, 0.001)
try:
    await asyncio.wait_for(asyncio.sleep(10), 0.01)
except asyncio.TimeoutError:
    timed_out = True
def works(x):
    return values == list(range(5)) and timed_out and asyncio.new_event_loop().run_until_complete(slow(3)) == 3
