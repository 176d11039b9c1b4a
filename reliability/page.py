def write_page() -> None:
    pass
