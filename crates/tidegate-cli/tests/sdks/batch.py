"""Thousands of calls at once with the official asynchronous SDK, until somebody ends it.

    batch.py HUNDREDS
"""

import asyncio
import sys

import openai

ASKED = dict(model="sim", max_tokens=8, messages=[{"role": "user", "content": "What is a tide?"}])


async def main():
    # A client looks through all of its connections for each call, so many small ones are faster than a large one.
    clients = [openai.AsyncOpenAI(api_key="any", timeout=600) for _ in range(int(sys.argv[1]))]
    calls = (client.chat.completions.create(**ASKED) for _ in range(100) for client in clients)
    await asyncio.gather(*calls)


asyncio.run(main())
