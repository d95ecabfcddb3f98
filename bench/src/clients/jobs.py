"""Jobs with the official SDK: most of them at once, those of high priority as time goes by.

    jobs.py NORMAL HIGH SECONDS

Says that it is ready, begins when it is told to, and says in its last line what became of the jobs.
"""

import asyncio
import json
import sys
import time

import openai

normal, high, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
ASKED = dict(model="sim", max_tokens=8, messages=[{"role": "user", "content": "What is a tide?"}])
# A client looks through all of its connections for each call, so many small ones are faster than a large one.
clients = [openai.AsyncOpenAI(api_key="any", timeout=600) for _ in range(8)]


async def job(number, priority, after):
    await asyncio.sleep(after)
    began = time.monotonic()
    try:
        headers = {"x-tidegate-priority": priority}
        await clients[number % len(clients)].chat.completions.create(**ASKED, extra_headers=headers)
    except openai.OpenAIError as error:
        return dict(error=str(error))
    return dict(priority=priority, seconds=time.monotonic() - began)


async def main():
    jobs = [job(number, "high", (number + 0.5) * seconds / high) for number in range(high)]
    jobs += [job(number, "normal", 0) for number in range(normal)]
    ended = await asyncio.gather(*jobs)
    errors = [end["error"] for end in ended if "error" in end]
    took = [end["seconds"] for end in ended if end.get("priority") == "high"]
    print(json.dumps(dict(errors=errors, high=took)))


print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main())
