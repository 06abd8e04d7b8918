"""The bus: `/call` a tool of an agent, `/register` an agent."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from scrubjay.api.deps import Jay, Who
from scrubjay.api.rag.schemas import RequestModel
from scrubjay.model.agent import Agent

router = APIRouter(tags=["bus"])

AgentName = Annotated[str, Path(max_length=64)]


class CallRequest(RequestModel):
    agent: str = Field(min_length=1, max_length=64, description="`scrubjay`, or a registered agent.")
    tool: str = Field(min_length=1, max_length=64)
    args: list[Any] = Field(default_factory=list, max_length=50)
    kwargs: dict[str, Any] = Field(default_factory=dict, max_length=100)


class CallResponse(BaseModel):
    status: Literal["success"] = "success"
    data: Any


class RegisterRequest(RequestModel):
    agent: str = Field(min_length=1, max_length=64)
    address: str = Field(min_length=1, max_length=2048, description="A call is a POST to this address and the tool.")


class AgentResponse(BaseModel):
    agent: str
    address: str
    created_at: datetime


class AgentsResponse(BaseModel):
    agents: list[AgentResponse]


class ToolResponse(BaseModel):
    name: str
    description: str
    scope: str
    parameters: dict[str, Any]


class ToolsResponse(BaseModel):
    tools: list[ToolResponse]


def _agent(agent: Agent) -> AgentResponse:
    return AgentResponse(agent=agent.name, address=agent.address, created_at=agent.created_at)


@router.post("/call", response_model=CallResponse)
async def call(jay: Jay, who: Who, body: CallRequest) -> CallResponse:
    """Call a tool. Ours are the tools of `/mcp`; what other agents are asked is repeated only if it was not begun."""
    return CallResponse(data=await jay.bus.call(who, body.agent, body.tool, body.args, body.kwargs))


@router.post("/register", status_code=201, response_model=AgentResponse)
async def register(jay: Jay, who: Who, body: RegisterRequest) -> AgentResponse:
    """Make an agent known, or tell its new address. Its address is guarded like every other."""
    return _agent(await jay.bus.register(who, body.agent, body.address))


@router.get("/agents", response_model=AgentsResponse)
async def list_agents(jay: Jay, who: Who) -> AgentsResponse:
    return AgentsResponse(agents=[_agent(agent) for agent in (await jay.bus.agents(who)).items])


@router.delete("/agents/{agent_name}", status_code=204)
async def remove_agent(jay: Jay, who: Who, agent_name: AgentName) -> None:
    await jay.bus.remove(who, agent_name)


@router.get("/tools", response_model=ToolsResponse)
async def list_tools(jay: Jay, who: Who) -> ToolsResponse:
    """The tools that this key may call."""
    return ToolsResponse(
        tools=[
            ToolResponse(
                name=tool.name,
                description=tool.description,
                scope=str(tool.scope),
                parameters=tool.parameters.model_json_schema(),
            )
            for tool in jay.tools.of(who)
        ]
    )
