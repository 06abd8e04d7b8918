"""The OpenAI door: `/openai/v1/…`, as the official SDK speaks it. The README says what is served where."""
