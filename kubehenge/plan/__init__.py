"""Deciding: from states of resources to a plan, its order, its bill, and what rules say of it. Pure."""
