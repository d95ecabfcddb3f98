"""Jobs with an official Python SDK, as anybody would write them: its base URL from the environment, its retries on.

    jobs.py openai|anthropic PREFIX JOBS [WORKERS]

Half of the jobs are streamed. The last line says what became of them, and which statuses the SDK saw.
"""

import collections
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sdk, prefix, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
workers = int(sys.argv[4]) if len(sys.argv) > 4 else 8
statuses, lock = collections.Counter(), threading.Lock()


def seen(response):
    with lock:
        statuses[str(response.status_code)] += 1


ASKED = dict(model="sim", max_tokens=8, messages=[{"role": "user", "content": "What is a tide?"}])

if sdk == "openai":
    import openai

    client = openai.OpenAI(api_key="any", http_client=openai.DefaultHttpxClient(event_hooks={"response": [seen]}))

    def plain(headers):
        reply = client.chat.completions.create(**ASKED, extra_headers=headers)
        return reply.choices[0].message.content

    def streamed(headers):
        chunks = client.chat.completions.create(**ASKED, stream=True, extra_headers=headers)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

else:
    import anthropic

    client = anthropic.Anthropic(
        api_key="any", http_client=anthropic.DefaultHttpxClient(event_hooks={"response": [seen]})
    )

    def plain(headers):
        return client.messages.create(**ASKED, extra_headers=headers).content[0].text

    def streamed(headers):
        with client.messages.stream(**ASKED, extra_headers=headers) as stream:
            return "".join(stream.text_stream)


def job(number):
    text = (streamed if number % 2 else plain)({"x-sim-id": f"{prefix}-{number}"})
    # Eight tokens of four characters: a stream that lacks a piece is no answer.
    if len(text) < 30 or not text.startswith("sea sea"):
        raise ValueError(f"job {number} got {text!r}")


def outcome(number):
    try:
        job(number)
    except Exception as error:  # told, and not raised: all jobs are to be counted
        return f"{type(error).__name__}: {error}"


began = time.monotonic()
with ThreadPoolExecutor(workers) as pool:
    errors = [error for error in pool.map(outcome, range(jobs)) if error]
seconds = time.monotonic() - began
print(json.dumps(dict(done=jobs - len(errors), errors=errors, statuses=statuses, seconds=seconds)))
