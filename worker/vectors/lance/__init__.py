"""The vector store on this machine's disk: LanceDB."""
