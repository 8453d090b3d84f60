"""What `./onbeat` does once its environment stands: run, up, test, services.

Standard library only and no Django: it starts the programs of the platform as processes and knows them by their
command lines. None of the four apps imports it.
"""
