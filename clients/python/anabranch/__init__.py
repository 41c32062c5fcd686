"""Handlers for Anabranch: exactly once, in order, in the transaction of the cursor.

| module | subject |
|---|---|
| ``_run`` | ``run`` and ``run_tasks``: the conversation with Anabranch |
| ``_tx`` | what a handler may ask for: statements, queries, events, tasks |
| ``_event`` | events, tasks and rows as handlers see them |
| ``_values`` | values as JSON, with all their digits |
| ``_pipes`` | the two pipes, and everybody else kept away from them |
| ``_errors`` | how a handler fails, and how a batch ends |
| ``testing`` | handlers without a database |
| ``client`` | the HTTP API of ``anabranch serve``, for programs that are no handlers |
"""

from ._errors import Abandoned, Failed
from ._event import Event, Row, Task
from ._run import run, run_tasks
from ._tx import Tx

__all__ = ["Abandoned", "Event", "Failed", "Row", "Task", "Tx", "run", "run_tasks"]
