"""The desktop app: a chat window over `medusa_core`, with a panel that shows how each reply is decoded."""
